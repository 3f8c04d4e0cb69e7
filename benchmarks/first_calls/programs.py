"""Twelve small programs in NumPy's vocabulary, and four probes of known costs.

Each program is a function `f(xp, *arguments)`, which runs unchanged on each library `xp`. This module imports NumPy alone, because a
process that measures one library must load no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
ASSIGNS = {"jax": "has no assignment to a part of an array"}


class SmallProgram(NamedTuple):
    """A program with its arguments: `inputs(rng, *size)` gives NumPy arrays and numbers.

    Tests use the size `tiny`. `absent` maps the names of libraries that take no part to the reason. `environment` holds variables for
    the processes of Tenxor. A result may differ from NumPy's by `tolerance`, as `benchmarks.check` defines it.
    """

    name: str
    function: Callable[..., Any]
    inputs: Callable[..., tuple[Any, ...]]
    size: tuple[int, ...]
    tiny: tuple[int, ...]
    absent: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    tolerance: float = 1e-9


# --- the twelve programs ---------------------------------------------------------------------------------------------------


def wave(xp: Any, height: Any, steps: int) -> Any:
    """Return the height of a membrane with a fixed border after some steps of the wave equation."""
    before, now = height, height
    for _ in range(steps):
        bend = xp.zeros_like(now)
        bend[1:-1, 1:-1] = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
        before, now = now, 2 * now - before + 0.2 * bend
    return now


def membrane(rng: np.random.Generator, n: int, steps: int) -> tuple[Any, ...]:
    """Return the heights of `n` × `n` points, and a number of steps."""
    height = np.zeros((n, n))
    height[n // 4 : n // 2, n // 3 : n // 2] = rng.random((n // 2 - n // 4, n // 2 - n // 3))
    return height, steps


def ising(xp: Any, spins: Any, chances: Any, black: Any) -> Any:
    """Return the spins of a magnet after sweeps over the black and the white fields of a checkerboard."""
    white = ~black
    for chance in chances:
        for colour, draws in ((black, chance[0]), (white, chance[1])):
            around = xp.roll(spins, 1, 0) + xp.roll(spins, -1, 0) + xp.roll(spins, 1, 1) + xp.roll(spins, -1, 1)
            flips = colour & (draws < xp.exp(-0.88 * spins * around))
            spins = xp.where(flips, -spins, spins)
    return spins


def magnet(rng: np.random.Generator, n: int, sweeps: int) -> tuple[Any, ...]:
    """Return spins of 1 and -1, the random numbers of the sweeps, and the mask of the black fields."""
    return rng.choice([-1.0, 1.0], (n, n)), rng.random((sweeps, 2, n, n)), np.indices((n, n)).sum(0) % 2 == 0


def conjugate_gradients(xp: Any, a: Any, b: Any, steps: int) -> Any:
    """Return the solution of `a @ x = b` for a positive definite matrix."""
    x = xp.zeros_like(b)
    residual = b - a @ x
    direction = residual
    square = residual @ residual
    for _ in range(steps):
        image = a @ direction
        length = square / (direction @ image)
        x = x + length * direction
        residual = residual - length * image
        square, previous = residual @ residual, square
        if square < 1e-20:
            break
        direction = residual + square / previous * direction
    return x


def positive_system(rng: np.random.Generator, n: int, steps: int) -> tuple[Any, ...]:
    """Return a positive definite matrix, a right-hand side, and the largest number of steps."""
    x = rng.normal(size=(n, n)) / n**0.5
    return x @ x.T + np.eye(n), rng.normal(size=n), steps


def viterbi(xp: Any, start: Any, moves: Any, emissions: Any) -> Any:
    """Return the likeliest path through hidden states, and its log-probability."""
    score = start + emissions[0]
    origins = []
    for emission in emissions[1:]:
        options = score[:, None] + moves
        origins.append(xp.argmax(options, axis=0))
        score = xp.amax(options, axis=0) + emission
    path = [int(xp.argmax(score))]
    for origin in origins[::-1]:
        path.append(int(origin[path[-1]]))
    return xp.asarray(path[::-1]), xp.amax(score)


def hidden_states(rng: np.random.Generator, states: int, steps: int) -> tuple[Any, ...]:
    """Return the logarithms of the probabilities of starts, moves and emissions."""
    return np.log(rng.random(states)), np.log(rng.random((states, states))), np.log(rng.random((steps, states)))


def kepler(xp: Any, mean: Any, eccentricity: Any) -> Any:
    """Return the eccentric anomalies of planets, by Newton's method."""
    anomaly = mean
    for _ in range(50):
        step = (anomaly - eccentricity * xp.sin(anomaly) - mean) / (1 - eccentricity * xp.cos(anomaly))
        anomaly = anomaly - step
        if xp.amax(xp.abs(step)) < 1e-9:
            break
    return anomaly


def planets(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    """Return mean anomalies and eccentricities."""
    return rng.random(n) * 6, rng.random(n) * 0.8


def path_cost(xp: Any, cost: Any) -> Any:
    """Return the least cost of a path from the first row to each element of the last; a step leads to one of three neighbours below."""
    edge = xp.full((1,), xp.inf)
    best = cost[0]
    for row in cost[1:]:
        wide = xp.concatenate((edge, best, edge))
        best = row + xp.minimum(xp.minimum(wide[:-2], wide[1:-1]), wide[2:])
    return best


def terrain(rng: np.random.Generator, rows: int, columns: int) -> tuple[Any, ...]:
    """Return the cost of each field."""
    return (rng.random((rows, columns)),)


def kalman(xp: Any, positions: Any, motion: Any, observation: Any, motion_noise: Any, position_noise: Any) -> Any:
    """Return the filtered states of a body in the plane: position and velocity."""
    state, spread = xp.zeros(4), xp.eye(4)
    states = xp.zeros((len(positions), 4))
    for k in range(len(positions)):
        state = motion @ state
        spread = motion @ spread @ motion.T + motion_noise
        total = observation @ spread @ observation.T + position_noise
        gain = xp.linalg.solve(total, observation @ spread).T
        state = state + gain @ (positions[k] - observation @ state)
        spread = spread - gain @ observation @ spread
        states[k] = state
    return states


def motion_matrices() -> tuple[Array, Array]:
    """Return the matrix of the motion in one step, and the matrix of the observation."""
    motion = np.eye(4)
    motion[0, 2] = motion[1, 3] = 0.1
    return motion, np.eye(2, 4)


def observed_body(rng: np.random.Generator, steps: int) -> tuple[Any, ...]:
    """Return positions with noise, the matrices of motion and observation, and the variances of both."""
    return rng.normal(size=(steps, 2)).cumsum(0), *motion_matrices(), 0.01 * np.eye(4), 0.5 * np.eye(2)


def moving_average(xp: Any, prices: Any, weight: float) -> Any:
    """Return the exponential moving average of each column."""
    mean = prices[0]
    means = [mean]
    for price in prices[1:]:
        mean = weight * price + (1 - weight) * mean
        means.append(mean)
    return xp.stack(means)


def market(rng: np.random.Generator, days: int, stocks: int) -> tuple[Any, ...]:
    """Return prices, and the weight of the last one."""
    return 100 + rng.normal(size=(days, stocks)).cumsum(0), 0.1


def soft_k_means(xp: Any, points: Any, centres: Any, steps: int) -> Any:
    """Return centres, each a mean of all points weighted by how near they are."""
    for _ in range(steps):
        distances = ((points[:, None] - centres) ** 2).sum(axis=-1)
        weights = xp.exp(-distances)
        weights = weights / weights.sum(axis=1, keepdims=True)
        centres = (weights.T @ points) / weights.sum(axis=0)[:, None]
    return centres


def blobs(rng: np.random.Generator, n: int, k: int, steps: int) -> tuple[Any, ...]:
    """Return points in the plane around `k` middles, a first centre near each, and a number of steps."""
    middles = rng.normal(0, 3, (k, 2))
    return middles[np.arange(n) % k] + rng.normal(size=(n, 2)), middles + 0.3, steps


def blur(xp: Any, image: Any) -> Any:
    """Return the inner part of an image after a blur by seven weights, along columns and then along rows."""
    weights = (0.006, 0.061, 0.242, 0.382, 0.242, 0.061, 0.006)
    height, width = image.shape[0] - 6, image.shape[1] - 6
    image = sum(weight * image[k : k + height] for k, weight in enumerate(weights))
    return sum(weight * image[:, k : k + width] for k, weight in enumerate(weights))


def picture(rng: np.random.Generator, height: int, width: int) -> tuple[Any, ...]:
    """Return the brightness of each pixel."""
    return (rng.random((height, width)),)


def running_minimum(xp: Any, x: Any) -> Any:
    """Return the least element so far; NumPy and PyTorch name the function differently."""
    return xp.minimum.accumulate(x) if hasattr(xp.minimum, "accumulate") else xp.cummin(x, 0).values


def edit_distance(xp: Any, a: Any, b: Any) -> Any:
    """Return the edit distance of `a` to each beginning of `b`."""
    place = xp.arange(len(b) + 1)
    above = place
    for letter in a:
        best = above + 1
        best[1:] = xp.minimum(best[1:], above[:-1] + (b != letter))
        above = running_minimum(xp, best - place) + place
    return above


def texts(rng: np.random.Generator, n: int, m: int) -> tuple[Any, ...]:
    """Return two texts of four letters."""
    return rng.integers(0, 4, n), rng.integers(0, 4, m)


def logistic_regression(xp: Any, x: Any, y: Any, steps: int) -> Any:
    """Return the weights of a logistic regression after some steps of gradient descent."""
    weights = xp.zeros(x.shape[1])
    for _ in range(steps):
        chances = 1 / (1 + xp.exp(-(x @ weights)))
        weights = weights - 0.5 * (x.T @ (chances - y)) / len(y)
    return weights


def labelled_points(rng: np.random.Generator, n: int, d: int, steps: int) -> tuple[Any, ...]:
    """Return points, a label of 0 or 1 for each, and a number of steps."""
    x = rng.normal(size=(n, d))
    return x, (x @ rng.normal(size=d) + rng.normal(size=n) > 0).astype(np.float64), steps


# --- probes of known costs -------------------------------------------------------------------------------------------------


def additions(xp: Any, a: Any, times: int) -> Any:
    """Return `a + a`, computed many times and read each time."""
    for _ in range(times):
        total = (a + a).tolist()
    return xp.asarray(total)


def vector(rng: np.random.Generator, n: int, times: int) -> tuple[Any, ...]:
    """Return a vector, and how often the program uses it."""
    return rng.random(n), times


def seven_operations(xp: Any, a: Any, b: Any) -> Any:
    """Return the result of seven operations on each element."""
    return xp.sqrt(xp.abs(a * 2 + b)) / (1 + xp.exp(-b))


def two_vectors(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    """Return two vectors."""
    return rng.normal(size=n), rng.normal(size=n)


def element_of_each_step(xp: Any, r: Any, steps: int) -> Any:
    """Return the sum of one element of each step; the element is read while the matrix is pending."""
    x, total = r, 0.0
    for _ in range(steps):
        x = x * 0.5 + r
        total += float(x[0, 0])
    return xp.asarray(total) + x


def small_matrix(rng: np.random.Generator, n: int, steps: int) -> tuple[Any, ...]:
    """Return a matrix, and a number of steps."""
    return rng.random((n, n)), steps


def kalman_with_pending_constants(xp: Any, positions: Any, motion: Any, observation: Any) -> Any:
    """Return what `kalman` returns; the variances are expressions, which a lazy library has not computed before the loop."""
    return kalman(xp, positions, motion, observation, 0.01 * xp.eye(4), 0.5 * xp.eye(2))


def body_alone(rng: np.random.Generator, steps: int) -> tuple[Any, ...]:
    """Return positions with noise, and the matrices of motion and observation."""
    return rng.normal(size=(steps, 2)).cumsum(0), *motion_matrices()


PROGRAMS = (
    SmallProgram("wave equation, 200×200, 20 steps", wave, membrane, (200, 20), (9, 3), ASSIGNS),
    SmallProgram("Ising model, 64×64, 10 sweeps", ising, magnet, (64, 10), (6, 2)),
    SmallProgram("conjugate gradients, 300×300", conjugate_gradients, positive_system, (300, 100), (5, 4), tolerance=1e-6),
    SmallProgram("Viterbi, 20 states, 500 steps", viterbi, hidden_states, (20, 500), (3, 5)),
    SmallProgram("Kepler's equation, 10,000 planets", kepler, planets, (10_000,), (7,)),
    SmallProgram("path cost by rows, 200×300", path_cost, terrain, (200, 300), (4, 5)),
    SmallProgram("Kalman filter, 4×4, 200 steps", kalman, observed_body, (200,), (4,), ASSIGNS),
    SmallProgram("moving average, 500 steps of 50", moving_average, market, (500, 50), (4, 3)),
    SmallProgram("soft k-means, 500 points, 10 steps", soft_k_means, blobs, (500, 5, 10), (8, 2, 2)),
    SmallProgram("separable blur, 600×800", blur, picture, (600, 800), (9, 8)),
    SmallProgram("edit distance by rows, 200×200", edit_distance, texts, (200, 200), (4, 6), ASSIGNS),
    SmallProgram("logistic regression, 2,000×20, 50 steps", logistic_regression, labelled_points, (2000, 20, 50), (9, 3, 2)),
)
WITHOUT_FAST_PATH = {"TENXOR_FAST_PATH": "0"}
PROBES = (
    SmallProgram("1,000 times a + a of 12, fast path off", additions, vector, (12, 1000), (3, 2), environment=WITHOUT_FAST_PATH),
    SmallProgram("seven operations on 10,000 elements", seven_operations, two_vectors, (10_000,), (7,)),
    SmallProgram("an element of each of 1,000 pending results", element_of_each_step, small_matrix, (4, 1000), (2, 3)),
    SmallProgram("Kalman filter with pending constants", kalman_with_pending_constants, body_alone, (200,), (4,), ASSIGNS),
)


def find_program(name: str) -> SmallProgram:
    """Return the program or probe with this name."""
    return next(program for program in PROGRAMS + PROBES if program.name == name)
