"""Names that a robot cannot have in C++: declarations of headers outside all namespaces.

A robot's name is a namespace. Headers of the C library and of CUDA declare these names, in
addition to the keywords; nvcc and NVRTC include their headers by default.
"""

from __future__ import annotations

import re

# C, POSIX, glibc and CUDA, without the forms that the patterns below add.
_WORDS = frozenset(
    """
    a64l abort accept access acct acosh adjtime alarm aligned_alloc all alloca any arc4random
    arc4random_buf arc4random_uniform asctime asinh asprintf at_quick_exit atanh atexit atof atoi
    atol ballot basename bcmp bcopy bind brk bsearch btowc bzero calloc canonicalize
    canonicalize_file_name cbrt chdir chown chroot clearenv clearerr clock clock_adjtime
    clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime clone close
    close_range closefrom confstr connect copy_file_range copysign cospi creat crypt ctermid ctime
    cuserid daemon daylight defined difftime dim3 div dl_find_object Dl_info Dl_serinfo Dl_serpath
    dladdr dladdr1 dlclose dlerror dlinfo dlmopen dlopen dlsym dlvsym dprintf drand48 drand48_data
    drem dup dup2 dup3 duplocale dysize eaccess ecvt endusershell environ erand48 erf erfc erfcinv
    erfcx erfinv euidaccess execl execle execlp execv execve execveat execvp execvpe exit exp10
    exp2 explicit_bzero expm1 EXPORT faccessat fchdir fchown fchownat fclose fcloseall fcntl fcvt
    fd_mask fd_set fdatasync fdim fdopen feof ferror fexecve fflush ffs ffsll fgetc fgetpos fgets
    fgetwc fgetws FILE fileno finite flockfile fmax fmaxmag fmemopen fmin fminmag fopen fopencookie
    fork fpathconf fpclassify fprintf fputc fputs fputwc fputws fread free freelocale freopen frexp
    fscanf fseek fseeko fsetpos fsync ftell ftello ftruncate ftrylockfile funlockfile futimes
    futimesat fwide fwprintf fwrite fwscanf gamma gcvt get_current_dir_name getc getchar getcpu
    getcwd getdate getdate_err getdelim getdomainname getdtablesize getegid getentropy getenv
    geteuid getgid getgroups gethostid gethostname getitimer getline getloadavg getlogin getopt
    getpagesize getpass getpgid getpgrp getpid getppid getpt getresgid getresuid getsid getsubopt
    gettid gettimeofday getuid getusershell getw getwc getwchar getwd gmtime grantpt group_member
    ilogb index initstate ioctl isalnum isalpha isascii isatty isblank iscanonical iscntrl isctype
    isdigit iseqsig isfinite isgraph isgreater isgreaterequal isinf isless islessequal
    islessgreater islower isnan isnormal isprint ispunct issignaling isspace isunordered isupper
    iswalnum iswalpha iswblank iswcntrl iswctype iswdigit iswgraph iswlower iswprint iswpunct
    iswspace iswupper iswxdigit isxdigit iszero itimerspec itimerval j0 j1 jn jrand48 kill l64a
    labs lchown lcong48 lconv ldexp ldiv lerp lgamma libraryPropertyType link link_map linkat
    listen llabs lldiv llmax llmin llogb llrint llround localeconv localtime lockf log10 log1p log2
    logb longjmp lrand48 lrint lround lseek lutimes MAJOR_VERSION malloc mblen mbrlen mbrtowc
    mbsinit mbsnrtowcs mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memcpy memfrob memmem
    memmove mempcpy memrchr memset MINOR_VERSION mkdir mkdtemp mkostemp mkostemps mkstemp mkstemps
    mktemp mktime mmap modf mrand48 nan nanosleep nearbyint newlocale nextafter nextdown nexttoward
    nextup nice norm norm3d norm4d normcdf normcdfinv nrand48 obstack obstack_printf
    obstack_vprintf on_exit open open_memstream open_wmemstream optarg opterr optind optopt
    PATCH_LEVEL pathconf pause pclose perror pipe pipe2 poll popen pread printf profil
    program_invocation_name program_invocation_short_name pselect ptsname putc putchar putenv puts
    putw putwc putwchar pwrite qecvt qfcvt qgcvt qsort quick_exit rand random random_data rawmemchr
    rcbrt read readlink readlinkat realloc reallocarray realpath recv remainder remove remquo
    rename renameat renameat2 revoke rewind rhypot rindex rmdir rnorm roundeven rpmatch rsqrt sbrk
    scalb scalbln scalbn scanf secure_getenv seed48 select send setbuf setbuffer setdomainname
    setegid setenv seteuid setgid sethostid sethostname setitimer setjmp setlinebuf setlocale
    setlogin setns setpgid setpgrp setregid setresgid setresuid setreuid setsid setstate
    settimeofday setuid setusershell setvbuf sigabbrev_np sigdescr_np sigevent signal signgam
    significand sincospi sinpi sleep snprintf socket sprintf srand srand48 srandom sscanf stat
    stderr stdin stdout stpcpy stpncpy strcasecmp strcasestr strcat strchr strchrnul strcmp strcoll
    strcpy strcspn strdup strerror strerrordesc_np strerrorname_np strfromd strfromf strfromf128
    strfromf32 strfromf32x strfromf64x strfroml strfry strftime strlen strncasecmp strncat strncmp
    strncpy strndup strnlen strpbrk strptime strrchr strsep strsignal strspn strstr strtod strtof
    strtof128 strtof32 strtof32x strtof64_l strtof64x strtok strtol strtold strtoll strtoq strtoul
    strtoull strtouq strverscmp strxfrm swab swprintf swscanf symlink symlinkat sync syncfs syscall
    sysconf system tanpi tcgetpgrp tcsetpgrp tempnam tgamma time timegm timelocal timer_create
    timer_delete timer_getoverrun timer_gettime timer_settime timespec timespec_get timespec_getres
    timeval timex timezone tm tmpfile tmpnam toascii tolower toupper towctrans towlower towupper
    truncate ttyname ttyslot tzname tzset u_char u_int u_long u_short ualarm uint ullmax ullmin
    ulong umask umax umin ungetc ungetwc unlink unlinkat unlockpt unsetenv unshare uselocale ushort
    usleep utimes va_list valloc vasprintf vdprintf vfork vfprintf vfscanf vfwprintf vfwscanf
    vhangup vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf vwscanf wait
    wcpcpy wcpncpy wcrtomb wcscasecmp wcscat wcschr wcschrnul wcscmp wcscoll wcscpy wcscspn wcsdup
    wcsftime wcslen wcsncasecmp wcsncat wcsncmp wcsncpy wcsnlen wcsnrtombs wcspbrk wcsrchr
    wcsrtombs wcsspn wcsstr wcstod wcstof wcstof128 wcstof32 wcstof32x wcstof64_l wcstof64x wcstok
    wcstol wcstold wcstoll wcstombs wcstoq wcstoul wcstoull wcstouq wcswcs wcswidth wcsxfrm wctob
    wctomb wctrans wctype wcwidth wmemchr wmemcmp wmemcpy wmemmove wmempcpy wmemset wprintf write
    wscanf y0 y1 yn
    """.split()
)
# Names of gridgen_*.cuh, including printed ones. Kernels of teams use these namespaces as a whole:
# a robot of such a name would make them ambiguous.
_SCAN = frozenset(
    """
    accelerate Answer answer append arrive Articulated articulated barrier_arrive barrier_wait
    Blocks BlockTeam by_position ad_add change_by_position
    change_by_velocity cholesky collect Columns component compose dot effort_of effort_row EffortRow
    Element Everyone extend fma freed from_below from_joint_order FromAbove
    FromBelow across_joint Handed Length let_go lever Lists load load_articulated load_spatial
    load_vector Mass Matrix Mobility moment momentum motion_of motion_wrench MotionChange Motions
    Moved moving MovingMass multiply origin_drift passed_on Paths Placement
    product propagate quadratic_row rate_of read Recorder scale_add scaled Screw slid Slots
    solve solve_block solve_lower solve_upper Spatial spun square_root subtract
    subtract_applied subtract_product subtract_square subtract_transposed Symmetric team to_ancestor
    to_body to_joint_order Transmission transmission transmit transpose triangle turn turn_add
    turned rotated_back turned_row rotated_wrench TurnedMass unit Unwatched Vector View WarpTeam
    wrench wrench_by_velocity wrench_of write
    """.split()
)
# Each scalar function has forms for other types; some have reentrant forms.
_FORMS = (
    *("f", "l", "f32", "f32x", "f64", "f64x", "f128", "64", "_r", "_l", "_unlocked"),
    *("f_r", "l_r", "f32_r", "f32x_r", "f64_r", "f64x_r", "f128_r"),
    *("f_l", "f32_l", "f32x_l", "f64_l", "f64x_l", "f128_l"),
)
_PATTERN = re.compile(
    "(gridgen|cuda|cu[a-z]+_st$|cuuuid|elf_|elf32_|elf64_|pthread_|rtld_|val_gnu_|sched_|sem_|nv_|"
    "posix_|tex[123]d|texcubemap|surf[123]d|surfcubemap|syncthreads_|totalorder|fmaximum|fminimum|"
    "u?fromfp|[gs]etpayload|fp_|itimer_)"
    "|atomic(add|sub|exch|min|max|inc|dec|cas|and|or|xor)(_block|_system)?$"
    "|(make_)?(u?(char|short|int|long|longlong)|float|double)[1-4](_[0-9]+a)?$"
    "|(u?int|u?ll|float|double)2(u?int|u?ll|float|double)$"
    "|(f32x?|f64x?|f|d)(add|div|fma|mul|sqrt|sub)(l|f[0-9]+x?)?$"
    "|[a-z0-9_]+_t$"
)


def is_declared(name: str, others: frozenset[str]) -> bool:
    """Return whether a header declares an identifier or one of its forms.

    Args:
        name:   the identifier.
        others: further names, which may also have the forms.
    """
    stems = [name, *(name[: -len(form)] for form in _FORMS if name.endswith(form))]
    is_word = any(stem in _WORDS or stem in others for stem in stems) or name in _SCAN
    return is_word or _PATTERN.match(name.lower()) is not None
