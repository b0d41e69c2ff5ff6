"""RobotDescription -> KinematicTree: moving bodies in order, in canonical frames.

A link on a fixed joint is merged into its parent body and remains available as a frame. Every
other joint with one velocity rotates about, or translates along, the z axis of its body's canonical
frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gridgen.errors import ModelError, OptionError
from gridgen.model.actuators import place_actuators, place_springs, place_tendons
from gridgen.model.constraints import place_constraints
from gridgen.model.contacts import place_contacts
from gridgen.model.description import (
    KeyValues,
    Limits,
    RobotDescription,
    listing,
    suggestion,
)
from gridgen.model.diagnostics import Diagnostic
from gridgen.model.kinematic_tree import (
    Actuator,
    Body,
    Frame,
    KinematicTree,
    SphereModel,
    Spring,
)
from gridgen.model.locked import lock_joints
from gridgen.model.lump import NO_MASS, Lump
from gridgen.model.parameters import (
    JOINT_PARAMETERS,
    choose_parameters,
    own_inputs,
    own_parameters,
    place_parts,
)
from gridgen.model.pose import (
    IDENTITY,
    Matrix3,
    Pose,
    Vector3,
    apply,
    multiply,
    snapped,
    transpose,
)
from gridgen.model.rotors import add_rotors
from gridgen.model.sensors import place_sensors
from gridgen.model.singular import singular_joints
from gridgen.model.soft import ContactModel
from gridgen.model.spheres import place_spheres
from gridgen.model.walk import Moving, Parts, walk
from gridgen.naming import show, show_value
from gridgen.options import DEFAULT_ROBOT, RobotOptions
from gridgen.symbolic.scalars import FloatScalars

__all__ = ["Body", "Frame", "KinematicTree", "Matrix3", "Vector3", "build_tree"]

LARGEST_CONSTANT = 1e18
"""Bound of masses, moments and distances: their squares fit float32 (3e38)."""


def build_tree(
    description: RobotDescription, options: RobotOptions = DEFAULT_ROBOT
) -> KinematicTree:
    """Build the kinematic tree of a robot.

    Args:
        description: robot from ``read_robot``.
        options:     options of the robot; ``mappings`` are not used here.

    Raises:
        ModelError: if no joint moves.
        UrdfError: if a mass, moment or distance exceeds ``LARGEST_CONSTANT``.
        OptionError: if an option names what the robot lacks or cannot have, or has an invalid
            entry.
    """
    rotors = options.rotors or {}
    description = add_rotors(description, rotors, gyroscopic=options.gyroscopic)
    description = lock_joints(description, options.lock or {})
    chosen = choose_parameters(description, options.parameters)
    parts = walk(description, options, frozenset(chosen.links))
    description.warn(parts.diagnostics)
    if not parts.moving:
        raise ModelError(
            f"{description.source}: robot {show(description.name)}: no joint moves, so there is "
            "nothing to compute; change the type of a joint, or set floating_base=True"
        )
    coordinates = _number(parts, options.order)
    armatures = _armatures(options.armature, parts, coordinates)
    placed = place_parts(description, parts, chosen)
    bodies: list[Body] = []
    for moving, indices, own_armature, own_parts in zip(
        parts.moving, coordinates, armatures, placed, strict=True
    ):
        body = _finish(moving, bodies, parts, indices, own_armature, options.joint_dynamics)
        if own_parts:
            rest = NO_MASS if chosen.bodies else moving.rest.turned(transpose(moving.alignment))
            body = replace(body, parts=own_parts, rest=rest)
        bodies.append(body)
    _check_magnitudes(description, bodies, parts.frames)
    constraints = place_constraints(description, options.constraints, bodies, parts.frames)
    contact_model = place_contacts(description, options, parts.frames, bodies)
    actuators = place_actuators(description, options, bodies, parts.frames)
    acts = options.joint_dynamics and (contact_model.acts or options.actuators is not False)
    springs = place_springs(description, bodies) if acts else ()
    tendons = place_tendons(description, bodies) if acts else ()
    description.warn(_not_acting(description, options, contact_model, springs))
    own = own_parameters(description, parts, bodies, chosen) | own_inputs(
        constraints, contact_model, actuators, springs, chosen
    )
    if description.gravity is not None:
        own["gravity"] = description.gravity
    if not options.check_parameters and "params" not in own:
        raise OptionError(
            f"check_parameters is False, and {show(description.name)} takes no params: name links "
            "in parameters, or leave it out"
        )
    if contact_model.acts and options.friction_width:
        raise OptionError(
            "the dry friction of joints is a constraint of a robot with contacts: omit "
            "friction_width"
        )
    if options.friction_width and not (options.joint_dynamics or "joint_friction" in own):
        raise OptionError(
            f"friction_width is {options.friction_width}, and {show(description.name)} has no "
            "friction: set joint_dynamics=True, or name joint_friction in parameters"
        )
    singular = () if "armature" in own else singular_joints(bodies)
    if singular:
        lines = {moving.joint: moving.line for moving in parts.moving}
        diagnostic = Diagnostic(
            "singular",
            f"joint {listing(singular, 3)}",
            "moves in a direction without inertia, so the mass matrix is singular and forward "
            "dynamics is undefined",
            "give the links below it mass and inertia, fix the joint, or add armature",
            lines[singular[0]],
        )
        description.warn([diagnostic])
    lifts = _lifts(description, parts, bodies) if acts and description.gravcomp else ()
    if any(lifts) and "params" in own:
        raise OptionError(
            f"{description.source}: parameters has masses, and the file compensates the weight of "
            "bodies (gravcomp): leave out one of them"
        )
    _check_convention(options, bodies, own)
    lower, upper, effort, velocity = _limits(parts, coordinates)
    spheres = SphereModel()
    if options.spheres:
        spheres = place_spheres(description, options, bodies, parts.frames, (lower, upper))
    return KinematicTree(
        name=description.name,
        source=description.source,
        digest=description.digest,
        options=options.robot,
        bodies=tuple(bodies),
        frames=tuple(parts.frames),
        nq=len(lower),
        nv=len(effort),
        lower_limits=lower,
        upper_limits=upper,
        effort_limits=effort,
        velocity_limits=velocity,
        singular_joint=singular[0] if singular else None,
        parameters=own,
        parameter_names=tuple(b.name for b in bodies) if chosen.bodies else chosen.links,
        constraints=constraints,
        contact_model=contact_model,
        actuators=actuators,
        springs=springs,
        tendons=tendons,
        lifts=lifts,
        sensors=place_sensors(
            *(description, options, bodies, parts.frames, actuators, (contact_model, constraints)),
            own,
        ),
        spheres=spheres,
        keyframes={
            name: _keyframe(one, bodies, (len(lower), len(effort)), actuators, options)
            for name, one in description.keyframes.items()
        },
    )


def _keyframe(
    given: KeyValues,
    bodies: Sequence[Body],
    sizes: tuple[int, int],
    actuators: Sequence[Actuator],
    options: RobotOptions,
) -> dict[str, tuple[float, ...]]:
    """Return ``q``, ``qd`` and ``ctrl`` of a keyframe, in the convention of the robot.

    A joint that is not in the file, and an actuator, is at its neutral position and at rest.
    """
    q, qd = (np.zeros(size) for size in sizes)
    for body in bodies:
        if body.mimics:
            continue
        joint, places = body.joint_type, slice(body.q_index, body.q_index + body.nq)
        place = [*given.positions.get(body.joint, joint.neutral)]
        rate = np.array(given.velocities.get(body.joint, (0.0,) * body.nv))
        if options.convention == "mujoco" and joint.quaternion is not None:
            if joint.is_free:
                R, _ = joint.transform(0, place, FloatScalars())
                rate[:3] = np.array(R) @ rate[:3]
            place = [*place[: joint.quaternion], place[-1], *place[joint.quaternion : -1]]
        q[places], qd[body.v_index : body.v_index + body.nv] = place, rate
    ctrl = tuple(given.controls.get(one.name, 0.0) for one in actuators)
    return {"q": tuple(q.tolist()), "qd": tuple(qd.tolist()), "ctrl": ctrl}


def _lifts(description: RobotDescription, parts: Parts, bodies: Sequence[Body]) -> tuple[Lump, ...]:
    """Return the mass of each body whose weight is compensated."""
    found, links = [NO_MASS] * len(bodies), {link.name: link for link in description.links}
    for frame in parts.frames:
        inertial, share = links[frame.name].inertial, description.gravcomp.get(frame.name, 0.0)
        if inertial is not None and share and frame.body >= 0:
            held = replace(inertial, mass=share * inertial.mass)
            at = Pose(frame.rotation, frame.translation)
            found[frame.body] = found[frame.body].plus(held, at)
    return tuple(
        lump.turned(transpose(body.link_rotation)) for lump, body in zip(found, bodies, strict=True)
    )


def _not_acting(
    description: RobotDescription,
    options: RobotOptions,
    contact_model: ContactModel,
    springs: Sequence[Spring],
) -> Iterator[Diagnostic]:
    """Yield what the options leave out of the file."""
    is_driven = options.actuators is not False
    pulling = [name for name, entry in description.tendons.items() if "softness" in entry]
    for what, option, in_file, acts in (
        ("contacts", "contact", description.contact_model.contacts, contact_model.acts),
        ("tendons", "contact", pulling, contact_model.acts or is_driven),
        (
            "gravity compensation",
            "actuators",
            description.gravcomp,
            contact_model.acts or is_driven,
        ),
        ("actuators", "actuators", description.actuators, is_driven),
    ):
        if in_file and not acts:
            problem = f"has {what}, which gridgen ignores"
            yield Diagnostic(option, "the model", problem, f"load it with {option}=True")
    advice = "load it with joint_dynamics=True and contacts or actuators, or add its torque to tau"
    for joint in () if springs else description.springs:
        problem = "has a spring, which gridgen ignores"
        yield Diagnostic("spring", f"joint {show(joint)}", problem, advice)
    is_taken = options.joint_dynamics or not (contact_model.acts or is_driven)
    if is_taken or not (description.contact_model.joints or description.actuators):
        return
    advice = "load it with joint_dynamics=True"
    for lossy in (joint for joint in description.joints if joint.damping or joint.friction):
        problem = "has damping or dry friction, which gridgen ignores"
        yield Diagnostic("losses", f"joint {show(lossy.name)}", problem, advice)


def _check_convention(
    options: RobotOptions, bodies: Sequence[Body], own: Mapping[str, Any]
) -> None:
    """Raise if the robot has no form in MuJoCo's convention."""
    free = [index for index, body in enumerate(bodies) if body.joint_type.is_free]
    if options.convention != "mujoco" or not free:
        return
    if len(free) > 1 or bodies[free[0]].parent >= 0 or any(bodies[free[0]].armature):
        raise OptionError(
            'convention="mujoco" supports one free joint, without armature, on the base: load the '
            "robot without convention="
        )
    if inputs := [name for name in JOINT_PARAMETERS if name in own]:
        raise OptionError(
            f'convention="mujoco" does not support {listing(inputs)} in parameters for a floating '
            "base: omit one of the two"
        )


def _number(parts: Parts, order: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first coordinate and velocity of each body; a mimic joint has its leader's."""
    listed = sorted(parts.moving, key=lambda moving: moving.place)
    joints = {moving.joint: moving for moving in listed if moving.coupling is None}
    own: dict[str, tuple[int, int]] = {}
    q_index = v_index = 0
    for name in _in_order(joints, order):
        own[name] = (q_index, v_index)
        q_index += joints[name].nq
        v_index += joints[name].nv
    return [
        own[moving.joint if moving.coupling is None else str(moving.coupling.leader)]
        for moving in parts.moving
    ]


def _in_order(joints: Mapping[str, Moving], order: Sequence[str]) -> Sequence[str]:
    """Return the names of joints in the order of the option; a free joint of the root is first."""
    if not order:
        return list(joints)
    first = next(iter(joints))
    has_free_base = joints[first].joint_type.is_free and joints[first].parent < 0
    names = [*[first] * (has_free_base and first not in order), *order]
    for name in names:
        if name not in joints:
            hint = suggestion(name, joints) or f"; the joints are {listing(joints)}"
            raise OptionError(f"order: no joint {show(name)} that moves independently{hint}")
        if names.count(name) > 1:
            raise OptionError(f"order contains joint {show(name)} twice; give each joint once")
    if missing := [name for name in joints if name not in names]:
        raise OptionError(f"order lacks {listing(missing)}; give every joint that moves once")
    return names


def _armatures(
    armature: float | Sequence[float], parts: Parts, coordinates: list[tuple[int, int]]
) -> list[tuple[float, ...]]:
    """Return the armature of each body: the description's plus the option's."""
    nv = sum(moving.nv for moving in parts.moving)
    try:
        # No dtype: with float, NumPy would convert "0.1", True and None to numbers.
        values = np.asarray(armature)
        if values.dtype.kind not in "fiu" or isinstance(armature, np.ma.MaskedArray):
            raise TypeError
    except (RuntimeError, TypeError, ValueError):
        raise OptionError(
            f"armature is {show_value(armature)}; give one number, or {nv} (one per velocity)"
        ) from None
    if values.shape not in ((), (nv,)):
        raise OptionError(
            f"armature has shape {values.shape}; give one number, or {nv} (one per velocity)"
        )
    bad = values[~(np.isfinite(values) & (values >= 0.0))]
    if bad.size:
        raise OptionError(f"armature contains {bad.flat[0]}; it must be finite and >= 0")
    result: list[tuple[float, ...]] = []
    for moving, (_, v_index) in zip(parts.moving, coordinates, strict=True):
        dofs = moving.joint_type.nv
        own = moving.armature or (0.0,) * dofs
        if moving.coupling is not None or (values.ndim == 0 and dofs > 1):
            added = np.zeros(dofs)
        else:
            added = np.broadcast_to(values, nv)[v_index : v_index + dofs].astype(float)
        result.append(tuple(a + float(b) for a, b in zip(own, added, strict=True)))
    return result


def _finish(
    moving: Moving,
    bodies: Sequence[Body],
    parts: Parts,
    coordinates: tuple[int, int],
    armature: tuple[float, ...],
    joint_dynamics: bool,
) -> Body:
    """Return a body in its canonical frame."""
    to_canonical = transpose(moving.alignment)
    if moving.parent < 0:
        outer, level = IDENTITY, 0
    else:
        outer = transpose(parts.moving[moving.parent].alignment)
        level = bodies[moving.parent].level + 1
    coupling = moving.coupling
    total = moving.total.turned(to_canonical)
    return Body(
        name=moving.link,
        joint=moving.joint,
        joint_type=moving.joint_type,
        parent=moving.parent,
        level=level,
        rotation=snapped(multiply(outer, multiply(moving.placement.rotation, moving.alignment))),
        translation=apply(outer, moving.placement.translation),
        link_rotation=moving.alignment,
        q_index=coordinates[0],
        v_index=coordinates[1],
        multiplier=1.0 if coupling is None else coupling.multiplier,
        offset=0.0 if coupling is None else coupling.offset,
        mimics=coupling is not None,
        mass=total.mass,
        first_moment=total.first_moment,
        inertia=total.inertia,
        damping=moving.damping if joint_dynamics else 0.0,
        friction=moving.friction if joint_dynamics else 0.0,
        armature=armature,
        max_angle=moving.max_angle,
    )


def _check_magnitudes(
    description: RobotDescription, bodies: Sequence[Body], frames: Sequence[Frame]
) -> None:
    """Raise for constants whose products would overflow in float32."""
    lines = {link.name: link.line for link in description.links}
    items: tuple[Body | Frame, ...] = (*bodies, *frames)
    for item in items:
        values = [*item.translation]
        if isinstance(item, Body):
            values += [item.mass, *item.first_moment, item.multiplier, item.offset]
            values.append(item.joint_type.pitch)
            values += [value for row in item.inertia for value in row]
        worst = max(abs(value) for value in values)
        if not worst <= LARGEST_CONSTANT:  # also true of a NaN
            raise description.error(
                f"link {show(item.name)}: its mass, inertia or distance is {worst!r}, more "
                f"than {LARGEST_CONSTANT:g}; check the units of the numbers",
                lines.get(item.name),
            )


def _limits(parts: Parts, coordinates: list[tuple[int, int]]) -> tuple[tuple[float, ...], ...]:
    """Return ``lower`` (nq), ``upper`` (nq), ``effort`` (nv) and ``velocity`` (nv) limits."""
    lower: list[float] = []
    upper: list[float] = []
    effort: list[float] = []
    velocity: list[float] = []
    unlimited = Limits(-math.inf, math.inf, math.inf, math.inf)
    for _, moving in sorted(zip(coordinates, parts.moving, strict=True), key=lambda pair: pair[0]):
        if moving.coupling is not None:
            continue
        limits = moving.limits or unlimited
        bounds = (-math.inf, math.inf) if moving.nq > 1 else (limits.lower, limits.upper)
        lower.extend([bounds[0]] * moving.nq)
        upper.extend([bounds[1]] * moving.nq)
        effort.extend([limits.effort] * moving.nv)
        velocity.extend([limits.velocity] * moving.nv)
    return tuple(lower), tuple(upper), tuple(effort), tuple(velocity)
