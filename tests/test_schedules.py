import pytest
import torch

from poise import Constant, Cosine, Exponential, Ramp, Steps
from poise.schedules import as_schedule


def test_a_switch_is_a_ramp_of_length_zero() -> None:
    switch = Ramp(1e-4, start=14000)
    assert [switch(step) for step in (0, 13999, 14000, 99999)] == [0, 0, 1e-4, 1e-4]


def test_a_ramp_is_a_line() -> None:
    ramp = Ramp(2.0, start=10, length=4)
    assert [ramp(step) for step in range(9, 16)] == [0, 0, 0.5, 1.0, 1.5, 2.0, 2.0]


def test_constant_and_numbers() -> None:
    assert Constant(3.0)(7) == 3.0
    assert as_schedule(0.5) == Constant(0.5)
    assert as_schedule(Ramp(1.0)) == Ramp(1.0)


def test_mnist_learning_rate() -> None:
    """Section 4.2: Adam at 0.01, times 0.89 per epoch."""
    schedule = Exponential(0.01, 0.89, every=391)
    assert schedule(0) == schedule(390) == 0.01
    assert schedule(391) == pytest.approx(0.0089)
    assert schedule(19 * 391) == pytest.approx(0.01 * 0.89**19)


def test_cifar_learning_rate() -> None:
    """Appendix C: up to 1.0 in 15 epochs, a tenth at epochs 200, 300 and 400."""
    epoch = 49
    schedule = Steps(1.0, (200 * epoch, 300 * epoch, 400 * epoch), warmup=15 * epoch)
    assert schedule(0) == pytest.approx(1 / (15 * epoch))
    assert schedule(15 * epoch - 1) == schedule(200 * epoch - 1) == 1.0
    assert [schedule(e * epoch) for e in (200, 300, 400, 449)] == pytest.approx([0.1, 0.01, 0.001, 0.001])


def test_imagenet_learning_rate() -> None:
    """Appendix C: up to 0.8 in 5 epochs, a tenth at epochs 30, 60 and 80."""
    epoch = 1251
    schedule = Steps(0.8, (30 * epoch, 60 * epoch, 80 * epoch), warmup=5 * epoch)
    assert [schedule(e * epoch) for e in (5, 29, 30, 60, 80)] == pytest.approx([0.8, 0.8, 0.08, 0.008, 0.0008])


def test_a_schedule_drives_a_torch_optimizer() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = Steps(0.8, (2,), warmup=2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    rates = []
    for _ in range(4):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([schedule(step) for step in range(4)])


@pytest.mark.parametrize(
    "build",
    [
        lambda: Ramp(1.0, start=-1),
        lambda: Ramp(1.0, length=-1),
        lambda: Steps(1.0, (3, 2)),
        lambda: Exponential(1.0, 0.5, every=0),
    ],
)
def test_bad_settings_are_refused(build) -> None:
    with pytest.raises(ValueError, match="must be"):
        build()


def test_cosine_rises_in_a_line_and_falls_in_half_a_wave() -> None:
    rate = Cosine(2.0, steps=110, warmup=10)
    assert [rate(step) for step in (0, 4, 9, 10)] == pytest.approx([0.2, 1.0, 2.0, 2.0])
    assert [rate(step) for step in (35, 60, 85, 110, 500)] == pytest.approx(
        [1 + 2**-0.5, 1.0, 1 - 2**-0.5, 0, 0], abs=1e-12
    )
    assert Cosine(1.0, steps=4)(2) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="warmup=5 must be a number of steps below steps=5"):
        Cosine(1.0, steps=5, warmup=5)
