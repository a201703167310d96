"""Interactive figure of NeRF's kernel, beside the Gaussian of random features."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import NeRFUnit
from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.absolute import gaussian_kernel, nerf_kernel

Array = np.ndarray

OCTAVES, SIGMA = 4, 1.0  # drawn where scripts do not run
OFFSETS = np.arange(385) / 192  # 12 in a period of the fastest of 6 octaves


def fields_explorable() -> Explorable:
    """Draw the kernel of NeRF's encoding and a Gaussian over the offset on one axis.

    The kernel, a share of its largest value, is computed by
    :func:`posedu.numpy.absolute.nerf_kernel`, the Gaussian by
    :func:`posedu.numpy.absolute.gaussian_kernel`.
    """
    picture = f"""
<svg class="plot" viewBox="0 0 400 232" role="img" aria-label="Two curves over the
 offset of two coordinates from 0 to 2: the inner product of NeRF's codes, and a
 Gaussian">
<text x="215" y="18">inner product, as a share of its largest value</text>
<text x="40" y="40" style="text-anchor:end">1</text>
<text x="40" y="115" style="text-anchor:end">0</text>
<text x="40" y="190" style="text-anchor:end">−1</text>
<text x="50" y="208">0</text><text x="215" y="208">1</text>
<text x="380" y="208">2</text><text x="215" y="226">offset</text>
<g transform="translate(50,110) scale(165,-75)">
<path d="M0,0H2M0,-1V1M1,-1V1M2,-1V1" stroke="currentColor" stroke-opacity="0.3"/>
<path class="gauss" d="M{_line(gauss(SIGMA))}" stroke="currentColor"
 stroke-dasharray="5 4" style="stroke-width:2"/>
<path class="kernel" d="M{_line(kernel(OCTAVES, "half turns"))}" stroke="{INKS[0]}"
 style="stroke-width:2"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> NeRF's encoding</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> random</span>
 Fourier features, on average</p>"""
    return explorable(
        "fields",
        picture,
        (
            Slider("octaves", "octaves L", 1, 6, OCTAVES),
            Slider("level", "bandwidth σ", -4, 4, 0, 1, f"{SIGMA:g}"),
            Choice(
                "unit",
                "angle",
                {"half turns": "2^ℓ π x (paper)", "radians": "2^ℓ x (code)"},
            ),
        ),
        summary=summary_text(OCTAVES, SIGMA, "half turns"),
        caption="The inner product of two codes on one axis. With π it is as large at "
        "the offset 2, from −1 to 1, as at 0. The Gaussian only falls.",
    )


def kernel(octaves: int, unit: NeRFUnit) -> Float[Array, "offsets"]:
    """Return the kernel of NeRF's encoding at each offset, divided by its value at 0.

    ``octaves`` is the number of frequencies and ``unit`` their unit.
    """
    return nerf_kernel(OFFSETS, octaves=octaves, unit=unit) / octaves


def gauss(sigma: float) -> Float[Array, "offsets"]:
    """Return the mean kernel of random Fourier features at each offset.

    ``sigma`` is the standard deviation of the frequencies, in full turns.
    """
    return gaussian_kernel(OFFSETS, sigma=sigma, unit="turns")


def summary_text(octaves: int, sigma: float, unit: NeRFUnit) -> str:
    """Say the kernels at the offsets 1 and 2, for the figure's settings."""
    at = {n: kernel(octaves, unit)[192 * n] for n in (1, 2)}
    far = gauss(sigma)[192]
    return (
        f"With L = {octaves} the share is {at[1]:z.2f} at offset 1 and {at[2]:z.2f} at "
        f"offset 2; the Gaussian with σ = {sigma:.3g} is {far:.2f} at offset 1."
    )


def _line(y: Array) -> str:
    return "L".join(f"{a:.6f},{b:z.4f}" for a, b in zip(OFFSETS, y, strict=True))
