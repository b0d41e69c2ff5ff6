"""``gridgen.envs`` beside Gymnasium's environments, and in its checker and learning libraries."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.errors import OptionError, ShapeError

gymnasium = pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")
mujoco = pytest.importorskip("mujoco")
envs = importlib.import_module("gridgen.envs")
MODES = list(gymnasium.vector.AutoresetMode)

pytestmark = [
    # Humanoid has tendons, which do nothing.
    pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning"),
    pytest.mark.filterwarnings("ignore:.*lim.*precision:UserWarning"),
]

#: A pole on a cart that is pushed.
POLE = """
<mujoco><option timestep="0.01"/><worldbody><body><joint name="slide" type="slide" axis="1 0 0"/>
  <geom size=".1"/><body><joint name="hinge" axis="0 1 0"/><geom pos="0 0 .5" size=".05"/>
</body></body></worldbody><actuator><motor joint="slide" ctrlrange="-1 1"/></actuator></mujoco>
"""


class Pole(gridgen.VectorEnv):
    """A pole that is to stay upright."""

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        super().__init__(mujoco.MjModel.from_xml_string(POLE), num_envs, frame_skip=2, **options)

    def begin(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        self.batch.qpos[rows, 1] = self.np_random.uniform(-0.1, 0.1, len(rows))
        return {"angle": self.batch.qpos[:, 1].copy()}

    def evaluate(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        angle = self.batch.qpos[:, 1].copy()
        return np.cos(angle), np.abs(angle) > 0.5, {"angle": angle, "push": actions[:, 0]}


def worst(given: Any, expected: Any) -> float:
    """Return the largest relative difference of all numbers; names, types and masks are equal."""
    if isinstance(expected, dict):
        assert given.keys() == expected.keys()
        return max((worst(given[k], expected[k]) for k in expected), default=0.0)
    if expected.dtype == object:
        assert [x is None for x in given] == [x is None for x in expected]
        pairs = zip(given, expected, strict=True)
        return max((worst(x, y) for x, y in pairs if y is not None), default=0.0)
    assert (given.shape, given.dtype) == (expected.shape, expected.dtype)
    error = np.abs(given.astype(float) - expected).max(initial=0.0)
    return float(error / (1.0 + np.abs(expected.astype(float)).max(initial=0.0)))


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("HalfCheetah", "NEXT_STEP"),
        ("Hopper", "NEXT_STEP"),
        ("Walker2d", "SAME_STEP"),
        pytest.param("Ant", "SAME_STEP", marks=pytest.mark.exhaustive),
        pytest.param("Humanoid", "SAME_STEP", marks=pytest.mark.exhaustive),
    ],
)
def test_environments_have_the_results_of_gymnasium(name: str, mode: str) -> None:
    """From equal seeds: observations, rewards, ends and infos, with resets between."""
    mode, count = gymnasium.vector.AutoresetMode[mode], 3
    made = [lambda: gymnasium.make(f"{name}-v5", max_episode_steps=40)] * count
    original = gymnasium.vector.SyncVectorEnv(made, autoreset_mode=mode)
    for one in original.envs:  # gridgen's solver has converged
        option = one.unwrapped.model.opt
        option.solver, option.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 300
        option.tolerance, option.ls_tolerance = 0.0, 1e-12
    batch = getattr(envs, name)(count, max_episode_steps=40, autoreset_mode=mode)
    assert batch.observation_space == original.observation_space
    assert batch.action_space == original.action_space
    pairs = zip(batch.reset(seed=5), original.reset(seed=5), strict=True)
    assert max(worst(x, y) for x, y in pairs) < 1e-12
    rng, ends = np.random.default_rng(0), 0
    for t in range(50):
        if name == "HalfCheetah" and t % 10 == 0:  # an error of 1e-15 grows to 1e-6 in 50 steps
            for k, one in enumerate(original.envs):
                batch.batch.qpos[k] = one.unwrapped.data.qpos
                batch.batch.qvel[k] = one.unwrapped.data.qvel
            batch._before = batch.marks()
        actions = rng.uniform(-1.1, 1.1, batch.action_space.shape) * batch.action_space.high
        results = batch.step(actions.astype(np.float32))
        expected = original.step(actions.astype(np.float32))
        assert max(map(worst, results, expected)) < 1e-9
        ends += np.count_nonzero(expected[2] | expected[3])
    assert ends >= count


def test_settings_are_those_of_gymnasium() -> None:
    with pytest.raises(OptionError, match='"ctrl_costs_weight"; the nearest are ctrl_cost_weight'):
        envs.Hopper(ctrl_costs_weight=1.0)
    batch = gymnasium.make_vec("gridgen/Hopper-v5", num_envs=2, healthy_reward=3.0)
    batch.reset(seed=0)
    *_, infos = batch.step(np.zeros(batch.action_space.shape, np.float32))
    assert infos["reward_survive"].tolist() == [3.0, 3.0]


def test_an_environment_passes_the_checks() -> None:
    batch = Pole(3, max_episode_steps=5)
    assert isinstance(batch, gymnasium.vector.VectorEnv)
    env_checker.check_reset_return_type(batch)
    env_checker.check_reset_seed_determinism(batch)
    env_checker.check_reset_options(batch)
    env_checker.check_returned_data_not_reused(Pole(1))
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(Pole(2, max_episode_steps=3))
    counted.reset(seed=0)
    for _ in range(8):
        counted.step(np.zeros((2, 1), np.float32))
    assert list(counted.length_queue) == [3] * 4
    batch.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_episodes_end_and_begin(mode: Any) -> None:
    batch = Pole(3, max_episode_steps=4, autoreset_mode=mode)
    still = np.zeros((3, 1))
    with pytest.raises(OptionError, match="call reset"):
        batch.step(still)
    with pytest.raises(OptionError, match="first reset all"):
        batch.reset(options={"reset_mask": np.array([True, False, False])})
    batch.reset(seed=0)
    batch.step(still)
    batch.batch.qpos[0, 1] = 2.0  # it has fallen
    batch.batch.qpos[1] = np.nan  # it has diverged
    seen, _, terminations, truncations, infos = batch.step(still)
    assert terminations.tolist() == [True, True, False]
    assert not truncations.any()
    same, disabled = (mode == m for m in (MODES[1], MODES[2]))
    assert (abs(seen[0, 1]) < 0.2) == same
    assert infos["_push"].tolist() == [not same, not same, True]
    assert ("final_obs" in infos) == same
    if same:
        assert infos["final_obs"][0][1] > 1.9
        assert infos["final_info"]["angle"][0] > 1.9
    if disabled:
        with pytest.raises(OptionError, match="reset_mask"):
            batch.step(still)
        _, infos = batch.reset(options={"reset_mask": terminations})
        assert infos["_angle"].tolist() == [True, True, False]
    seen, rewards, *_ = batch.step(still)
    assert (rewards[:2] == 0.0).all() == (mode == MODES[0])
    assert np.isfinite(seen).all()
    *_, truncations, _ = batch.step(still)
    assert truncations.tolist() == [False, False, True]


def test_invalid_arguments_are_named() -> None:
    batch = Pole(2)
    batch.reset(seed=0)
    before = batch.batch.qpos.copy()
    for actions, error, message in (
        (np.zeros(2), ShapeError, r"shape \(2,\); give \(2, 1\)"),
        ([[0.0], [np.nan]], OptionError, "the action of environment 1"),
        (np.array([["a"], ["b"]]), OptionError, "actions have type"),
    ):
        with pytest.raises(error, match=message):
            batch.step(actions)
    for mask, error in (([True], ShapeError), ([1, 0], OptionError), ([False] * 2, OptionError)):
        with pytest.raises(error, match="reset_mask"):
            batch.reset(options={"reset_mask": np.array(mask)})
    with pytest.raises(TypeError, match="evaluate"):
        gridgen.VectorEnv(batch.batch.model)
    own = type("Own", (gridgen.VectorEnv,), {"evaluate": Pole.evaluate})
    for options in ({"frame_skip": 0}, {"max_episode_steps": 0}, {"max_episode_steps": 1.5}):
        with pytest.raises(OptionError, match="give a positive number"):
            own(batch.batch.model, **options)
    assert np.array_equal(batch.batch.qpos, before)


def test_stable_baselines_trains() -> None:
    baselines = pytest.importorskip("stable_baselines3")
    with pytest.raises(OptionError, match="SAME_STEP"):
        envs.stable_baselines(Pole(1))
    batch = envs.stable_baselines(Pole(2, max_episode_steps=3, autoreset_mode=MODES[1]))
    batch.seed(0)
    batch.reset()
    for _ in range(3):
        *_, ended, infos = batch.step(np.zeros((2, 1), np.float32))
    assert ended.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert infos[0]["terminal_observation"].shape == (4,)
    assert batch.get_attr("dt") == [0.02] * 2
    model = baselines.PPO("MlpPolicy", batch, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    assert model.learn(16).num_timesteps == 16


def test_the_interface_of_rsl_rl() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("rsl_rl")
    batch = envs.rsl_rl(Pole(2, max_episode_steps=3, autoreset_mode=MODES[1]), seed=0)
    assert (batch.num_envs, batch.num_actions, batch.max_episode_length) == (2, 1, 3)
    batch.episode_length_buf = torch.tensor([0, 1])
    for _ in range(2):
        seen, rewards, dones, extras = batch.step(torch.zeros(2, 1))
    assert dones.tolist() == extras["time_outs"].tolist() == [False, True]
    assert seen["policy"].shape == (2, 4)
    assert rewards.dtype == seen["policy"].dtype == torch.float32
    assert batch.episode_length_buf.tolist() == [2, 0]
