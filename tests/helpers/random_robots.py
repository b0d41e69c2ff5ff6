"""Hypothesis strategies for random robots with every kind of joint."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from helpers.robots import BALL, SCREW, joint_text, link_text, robot_text

KINDS = ("revolute", "continuous", "prismatic", "helical", "ball", "floating", "planar", "fixed")
#: Kinds with one coordinate, which can be mimicked and can mimic.
COUPLED = ("revolute", "continuous", "prismatic", "helical")
_AXES = ("1 0 0", "0 1 0", "0 0 1", "0 0 -1", "0.6 -0.48 0.64")
#: The last two are a hair off the coordinate axes: small angles must be neither lost nor blown up.
_ANGLES = (
    *("0 0 0", "1.5707963267948966 0 0", "0 3.141592653589793 0", "0.3 -0.7 1.1"),
    *("1.5707 1e-9 0", "3.141592653589 7e-14 1.5708"),
)
_PLACES = ("0 0 0", "0 0 0.3", "0.1 -0.2 0.15")
_MULTIPLIERS = ("1", "-1", "-1.5", "0", "0.4")
_NO_MASS = '<link name="{}"/>'


@st.composite
def links(draw: Any, name: str, *, massless: bool) -> str:
    """Return a heavy, light or massless link, or a point mass."""
    kinds = ("heavy", "light", "point", *(("massless",) if massless else ()))
    kind = draw(st.sampled_from(kinds))
    if kind == "massless":
        return _NO_MASS.format(name)
    com = draw(st.sampled_from(("0 0 0", "0 0 0.1", "0.1 -0.05 0.2")))
    if kind == "point":
        return link_text(name, mass="0.5", com=com, inertia="0 0 0 0 0 0")
    if kind == "light":
        return link_text(name, mass="0.2", com=com, inertia="0.001 0 0 0.002 0 0.0015")
    rpy = draw(st.sampled_from(_ANGLES))
    return link_text(name, mass="3", com=com, rpy=rpy, inertia="0.02 0.001 0 0.03 -0.002 0.025")


def _led_by(joint: int, follows: dict[int, int]) -> list[int]:
    """Return the joints that a joint mimics, directly or through others."""
    chain = []
    while joint in follows:
        chain.append(joint := follows[joint])
    return chain


@st.composite
def robots(
    draw: Any,
    *,
    most: int = 6,
    kinds: tuple[str, ...] = KINDS,
    mimic: bool = True,
    massless: bool = True,
) -> str:
    """Return the URDF of a robot whose first joint moves.

    Args:
        draw:     draw function of hypothesis.
        most:     largest number of joints.
        kinds:    kinds of joints.
        mimic:    whether joints may mimic others.
        massless: whether links may have no mass; the caller adds armatures to all velocities.
    """
    count = draw(st.integers(1, most))
    chosen = [
        draw(st.sampled_from(kinds if i else tuple(k for k in kinds if k != "fixed")))
        for i in range(count)
    ]
    suffixes = {"helical": SCREW, "ball": BALL}
    # Siblings are ordered by name: mimicked joints come before or after those that mimic.
    names = [
        f"{letter}{i}{suffixes.get(chosen[i], '')}"
        for i, letter in enumerate(draw(st.permutations("abcdefghijkl"))[:count])
    ]
    elements = [link_text("base")]
    follows: dict[int, int] = {}
    still: set[int] = set()
    for i, kind in enumerate(chosen):
        parent = draw(st.integers(-1, i - 1))
        elements.append(draw(links(f"link{i}", massless=massless)))
        leaders = [
            j for j in range(count) if chosen[j] in COUPLED and i not in (j, *_led_by(j, follows))
        ]
        extra = ""
        if kind not in ("floating", "fixed"):
            extra = f'<dynamics damping="0.{i + 1}" friction="0.2"/>'
        if mimic and kind in COUPLED and leaders and draw(st.integers(0, 2)) == 0:
            follows[i] = leader = draw(st.sampled_from(leaders))
            # Pinocchio puts a joint with multiplier 0 at zero, here and along the chain.
            leads = i in follows.values()
            multiplier = draw(st.sampled_from([m for m in _MULTIPLIERS if m != "0" or not leads]))
            if multiplier == "0" or leader in still:
                still.add(i)
            offset = "0" if i in still else "0.2"
            extra += f'<mimic joint="{names[leader]}" multiplier="{multiplier}" offset="{offset}"/>'
        elements.append(
            joint_text(
                names[i],
                "base" if parent < 0 else f"link{parent}",
                f"link{i}",
                kind,
                xyz=draw(st.sampled_from(_PLACES)),
                rpy=draw(st.sampled_from(_ANGLES)),
                # Pinocchio supports only planar joints about z.
                axis=None
                if kind in ("floating", "ball")
                else "0 0 1"
                if kind == "planar"
                else draw(st.sampled_from(_AXES)),
                extra=extra,
            )
        )
    return robot_text(*elements)


@st.composite
def mujoco_robots(draw: Any, *, most: int = 5) -> str:
    """Return an MJCF file: up to two hinges, slides and balls a body; the first may be free."""
    count = draw(st.integers(1, most))
    bodies: list[list[str]] = [[] for _ in range(count)]
    parents = [-1, *(draw(st.integers(0, i - 1)) for i in range(1, count))]
    for i in range(count):
        pos, euler = draw(st.sampled_from(_PLACES)), draw(st.sampled_from(_ANGLES))
        joints = ""
        if i == 0 and draw(st.booleans()):
            joints = "<freejoint/>"
        else:
            for k in range(draw(st.integers(1, 2))):
                # MuJoCo has no rotation after that of a ball.
                kinds = ("slide",) if "ball" in joints else ("hinge", "slide", "ball")[: 3 - k]
                kind, axis = draw(st.sampled_from(kinds)), draw(st.sampled_from(_AXES))
                numbers = f'armature="0.{i + 1}" damping="0.{k + 2}"'
                numbers += ' pos="0.1 0 0.2"' if kind == "ball" else f' ref="0.{k}"'
                joints += f'<joint name="j{i}{k}" type="{kind}" axis="{axis}" {numbers}/>'
        com = draw(st.sampled_from(_PLACES))
        inertia = f'<inertial pos="{com}" mass="{i + 1}" diaginertia="0.02 0.03 0.025"/>'
        bodies[i] = [f'<body name="b{i}" pos="{pos}" euler="{euler}">{joints}{inertia}']
    for i in reversed(range(count)):
        bodies[i].append("</body>")
        if i:
            bodies[parents[i]].append("".join(bodies[i]))
    head = '<compiler angle="radian"/><option><flag contact="disable"/></option>'
    return f"<mujoco>{head}<worldbody>{''.join(bodies[0])}</worldbody></mujoco>"
