"""The batch environment is one of Gymnasium, and Stable-Baselines3 trains in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")
AutoresetMode = gymnasium.vector.AutoresetMode

ID = "gridgen/Quadruped-v0"


@pytest.fixture
def module(example: Callable[[str], Any]) -> Any:
    return example("batch_environment")


@pytest.mark.usefixtures("module")
def test_it_passes_the_checker() -> None:
    """Warnings are errors: of spaces, seeds, determinism, data that calls share."""
    environment = gymnasium.make(ID, disable_env_checker=True).unwrapped
    env_checker.check_env(environment)


@pytest.mark.usefixtures("module")
def test_the_batch_passes_what_the_checker_has_for_batches() -> None:
    batch = gymnasium.make_vec(ID, num_envs=3)
    assert isinstance(batch, gymnasium.vector.VectorEnv)
    env_checker.check_reset_return_type(batch)
    env_checker.check_reset_seed_determinism(batch)
    env_checker.check_reset_options(batch)
    env_checker.check_returned_data_not_reused(gymnasium.make_vec(ID, num_envs=1))
    for space, single in (
        (batch.observation_space, batch.single_observation_space),
        (batch.action_space, batch.single_action_space),
    ):
        assert space == gymnasium.vector.utils.batch_space(single, 3)


def test_a_robot_of_a_batch_moves_as_one_alone(module: Any) -> None:
    """Whatever the others do, and when they are reset."""
    batch, alone = module.QuadrupedVectorEnv(5), module.QuadrupedVectorEnv(1)
    batch.reset(seed=3)
    alone.reset(seed=4)
    alone.q[:], alone.friction[:] = batch.q[2], batch.friction[2]
    rng = np.random.default_rng(0)
    for _ in range(4):
        actions = rng.uniform(-1, 1, batch.action_space.shape).astype(np.float32)
        results, expected = batch.step(actions)[:4], alone.step(actions[2:3])[:4]
        for result, one in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result[2], one[0])


def test_quadrupeds_stand_on_the_ground(module: Any) -> None:
    environment = module.QuadrupedVectorEnv(5, command=(0.0, 0.0, 0.0))
    first, infos = environment.reset(seed=0)
    assert first in environment.observation_space
    assert not infos
    still = np.zeros(environment.action_space.shape, np.float32)
    for _ in range(60):
        observations, rewards, terminations, truncations, _ = environment.step(still)
    assert not terminations.any()
    assert not truncations.any()
    assert (rewards > 1.0).all()
    robot, feet = environment.robot, module.quadruped.FEET
    heights = robot.forward_kinematics(environment.q, feet)[:, :, 2, 3]
    assert (abs(heights - module.quadruped.RADIUS) < 3e-3).all()
    assert np.abs(environment.qd).max() < 0.1, "they have come to rest"
    assert observations in environment.observation_space
    assert len(set(environment.friction[:, 0])) == 5


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_episodes_end_and_begin_anew(module: Any, mode: Any) -> None:
    """Robot 0 turns over, the other two are truncated after five steps; none misses a reset."""
    environment = module.QuadrupedVectorEnv(3, episode=5, autoreset_mode=mode)
    environment.reset(seed=0)
    still = np.zeros(environment.action_space.shape, np.float32)
    environment.step(still)
    environment.q[0, 2:7] = (0.5, 1.0, 0.0, 0.0, 0.0)  # upside down
    observations, _, terminations, truncations, infos = environment.step(still)
    assert terminations.tolist() == [True, False, False]
    assert not truncations.any()
    stands = observations[:, 2] > 0.9
    assert stands[0] == (mode == AutoresetMode.SAME_STEP)
    if mode == AutoresetMode.SAME_STEP:
        assert infos["_final_obs"].tolist() == [True, False, False]
        assert infos["final_obs"][0][2] < -0.9
        assert infos["final_obs"][1] is None
    if mode == AutoresetMode.DISABLED:
        with pytest.raises(ValueError, match="reset_mask"):
            environment.step(still)
        observations, _ = environment.reset(options={"reset_mask": terminations})
        assert (observations[0, 3:9] == 0.0).all()
    ends = {}
    for step in range(3, 9):
        observations, rewards, terminations, truncations, _ = environment.step(still)
        if mode == AutoresetMode.NEXT_STEP and step == 3:
            assert rewards[0] == 0.0
            assert (observations[0, 3:9] == 0.0).all()
        assert not terminations.any()
        for robot in np.flatnonzero(truncations):
            ends.setdefault(int(robot), step)
        if mode == AutoresetMode.DISABLED and truncations.any():
            environment.reset(options={"reset_mask": truncations})
    assert ends == {0: 8 if mode == AutoresetMode.NEXT_STEP else 7, 1: 5, 2: 5}


def test_episodes_are_counted(module: Any) -> None:
    batch = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        module.QuadrupedVectorEnv(2, episode=3)
    )
    batch.reset(seed=0)
    for _ in range(8):
        batch.step(np.zeros(batch.action_space.shape, np.float32))
    assert list(batch.length_queue) == [3] * 4


def test_a_policy_is_trained(example: Callable[[str], Any]) -> None:
    pytest.importorskip("stable_baselines3")
    module = example("train_quadruped")
    batch = module.QuadrupedVectorEnv(2, episode=3, autoreset_mode=AutoresetMode.SAME_STEP)
    model = module.train(4, 2 * 24 * 4, (8,))
    assert model.num_timesteps == 2 * 24 * 4
    plant = module.plants.Own(module.quadruped.load(), module.quadruped.URDF)
    walker = module.Walker(model)
    assert len(module.quadruped.walk(plant, walker.step, module.PERIOD, 0.1)) == 5
    batch.reset(seed=0)
    batch.q[:], batch.qd[:], batch.actions[:] = plant.q, plant.qd, walker.action
    batch.steps[:] = walker.steps
    target = walker.step(plant.q, plant.qd)[0]
    seen = batch._observations()
    action = model.predict(seen, deterministic=True)[0][0]
    np.testing.assert_allclose(target, module.quadruped.STANCE + module.REACH * action, atol=1e-6)
