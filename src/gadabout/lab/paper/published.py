"""The published figures, as data: Tables 1 to 7 of the paper, and Table 1 of the authors' slides.

The tables print the acceptance rate of NUTS as "> 0.7"; it is 0.7 here. Of HMC with 5, 10 and 20 leapfrog steps the
tables print the row with the best mean Min ESS/s; Table 7 prints all three.
"""

from typing import Any, NamedTuple


class Published(NamedTuple):
    """One row: averages over ten repeats (five in Table 7), times in seconds on the authors' machine."""

    seconds: float
    acceptance_rate: float
    ess: tuple[float, float, float]
    """smallest, median and largest ESS over coordinates, for 20,000 draws"""
    min_ess_per_second: float
    sd: float
    """standard deviation of Min ESS/s over the repeats"""

    def as_json(self) -> dict[str, Any]:
        """The row in the form of this library's rows."""
        return {
            "seconds": self.seconds,
            "acceptance_rate": self.acceptance_rate,
            "ess": dict(zip(("min", "median", "max"), self.ess, strict=True)),
            "min_ess_per_second": {"mean": self.min_ess_per_second, "sd": self.sd},
        }


PAPER: dict[str, dict[str, Published]] = {
    "neal": {
        "gadMALAf": Published(8.7, 0.556, (1413.4, 1987.4, 2580.8), 161.7, 15.07),
        "gadMALAe": Published(10.0, 0.541, (922.2, 2006.3, 2691.1), 92.34, 7.11),
        "gadRWM": Published(7.0, 0.254, (27.5, 66.9, 126.9), 3.95, 0.66),
        "AM": Published(2.3, 0.257, (8.7, 48.6, 829.1), 3.71, 0.87),
        "RWM": Published(2.2, 0.261, (2.9, 8.4, 2547.6), 1.31, 0.06),
        "MALA": Published(3.1, 0.53, (2.9, 10.0, 12489.2), 0.95, 0.03),
        "HMC-20": Published(49.7, 0.694, (306.1, 1537.8, 19732.4), 6.17, 3.35),
        "NUTS": Published(360.5, 0.7, (18479.6, 20000.0, 20000.0), 51.28, 1.64),
    },
    "caravan": {
        "gadMALAf": Published(23.1, 0.621, (228.1, 750.3, 1114.7), 9.94, 2.64),
        "gadMALAe": Published(95.1, 0.494, (66.6, 508.3, 1442.7), 0.7, 0.16),
        "gadRWM": Published(22.6, 0.234, (5.3, 34.3, 104.5), 0.23, 0.06),
        "AM": Published(20.0, 0.257, (3.2, 11.8, 62.5), 0.16, 0.01),
        "RWM": Published(15.3, 0.242, (3.0, 9.3, 52.5), 0.2, 0.03),
        "MALA": Published(22.8, 0.543, (4.4, 28.3, 326.0), 0.19, 0.05),
        "HMC-10": Published(225.5, 0.711, (248.3, 2415.7, 19778.7), 1.1, 0.12),
        "NUTS": Published(1412.1, 0.7, (7469.5, 20000.0, 20000.0), 5.29, 0.38),
    },
    "australian": {
        "gadMALAf": Published(8.1, 0.569, (3485.9, 4262.9, 4784.0), 443.97, 76.13),
        "gadMALAe": Published(13.5, 0.54, (3034.9, 4234.3, 4836.3), 227.61, 29.87),
        "gadRWM": Published(7.7, 0.253, (288.0, 423.0, 515.0), 38.68, 9.53),
        "AM": Published(4.4, 0.261, (310.9, 410.1, 507.2), 70.21, 6.23),
        "RWM": Published(3.4, 0.252, (31.3, 312.6, 495.2), 9.16, 3.12),
        "MALA": Published(7.0, 0.524, (138.4, 2388.1, 3818.8), 20.22, 5.14),
        "HMC-5": Published(37.0, 0.7, (1048.1, 3510.3, 14809.7), 28.06, 11.69),
        "NUTS": Published(41.3, 0.7, (2995.2, 20000.0, 20000.0), 72.86, 7.31),
    },
    "ripley": {
        "gadMALAf": Published(3.3, 0.536, (8328.4, 8913.2, 9442.4), 2506.04, 143.47),
        "gadMALAe": Published(4.9, 0.543, (8446.7, 9006.6, 9595.6), 1713.44, 44.91),
        "gadRWM": Published(3.1, 0.068, (638.0, 736.9, 803.2), 205.99, 17.85),
        "AM": Published(3.0, 0.257, (1702.8, 1792.2, 1902.0), 570.19, 49.32),
        "RWM": Published(2.1, 0.252, (1129.2, 1627.8, 1979.8), 534.21, 43.54),
        "MALA": Published(2.8, 0.542, (2976.0, 5683.0, 9726.5), 1046.48, 54.86),
        "HMC-5": Published(14.7, 0.678, (9205.3, 10818.1, 16136.5), 626.55, 196.48),
        "NUTS": Published(7.5, 0.7, (9436.2, 17463.5, 20000.0), 1265.99, 73.01),
    },
    "pima": {
        "gadMALAf": Published(4.6, 0.545, (5407.6, 5810.3, 6467.6), 1176.12, 79.54),
        "gadMALAe": Published(6.8, 0.547, (5469.6, 5963.6, 6421.1), 801.03, 16.07),
        "gadRWM": Published(4.2, 0.267, (635.6, 760.0, 866.2), 150.7, 9.73),
        "AM": Published(4.1, 0.273, (612.7, 729.1, 854.8), 149.18, 10.4),
        "RWM": Published(3.2, 0.246, (354.6, 496.4, 709.6), 111.81, 6.16),
        "MALA": Published(4.0, 0.509, (1524.9, 2457.2, 3853.6), 377.17, 25.8),
        "HMC-5": Published(20.3, 0.711, (7295.7, 12798.7, 18267.4), 359.22, 103.55),
        "NUTS": Published(15.2, 0.7, (15343.3, 18606.0, 20000.0), 1008.97, 42.33),
    },
    "heart": {
        "gadMALAf": Published(4.1, 0.551, (3892.9, 4362.7, 4784.2), 946.98, 56.1),
        "gadMALAe": Published(6.4, 0.56, (3832.4, 4372.3, 4845.6), 599.51, 30.0),
        "gadRWM": Published(3.8, 0.288, (342.5, 440.9, 536.1), 88.94, 10.29),
        "AM": Published(3.2, 0.238, (342.5, 425.5, 535.4), 106.97, 7.18),
        "RWM": Published(2.3, 0.266, (196.9, 314.3, 472.7), 86.57, 11.33),
        "MALA": Published(3.5, 0.53, (1429.7, 2310.6, 3260.4), 404.96, 18.57),
        "HMC-5": Published(18.4, 0.699, (1913.2, 5600.3, 11883.0), 103.81, 39.38),
        "NUTS": Published(15.4, 0.7, (20000.0, 20000.0, 20000.0), 1295.13, 15.74),
    },
    "german": {
        "gadMALAf": Published(11.0, 0.56, (2734.9, 3414.5, 3928.6), 252.91, 37.86),
        "gadMALAe": Published(22.4, 0.549, (2808.2, 3384.9, 3883.5), 126.0, 14.68),
        "gadRWM": Published(10.4, 0.248, (179.1, 252.5, 323.1), 17.92, 4.18),
        "AM": Published(12.6, 0.262, (121.9, 207.6, 308.0), 9.72, 1.25),
        "RWM": Published(8.4, 0.233, (45.0, 153.8, 298.7), 5.48, 1.83),
        "MALA": Published(9.2, 0.535, (420.1, 1313.2, 2573.7), 47.37, 10.22),
        "HMC-5": Published(43.4, 0.706, (3020.2, 10294.4, 20000.0), 71.62, 49.62),
        "NUTS": Published(47.4, 0.7, (7737.2, 20000.0, 20000.0), 166.93, 30.57),
    },
    "mnist-56-as-published": {
        "gadMALAf": Published(779.3, 0.575, (46.0, 128.7, 282.8), 0.059, 0.0),
        "MALA": Published(311.8, 0.53, (2.8, 5.9, 28.4), 0.009, 0.0),
        "HMC-5": Published(1847.4, 0.733, (4.5, 23.1, 162.7), 0.002, 0.0),
        "HMC-10": Published(3381.3, 0.589, (13.9, 66.5, 576.0), 0.004, 0.0),
        "HMC-20": Published(6449.1, 0.666, (77.8, 240.1, 2060.9), 0.012, 0.0),
        "NUTS": Published(83232.1, 0.7, (18514.1, 20000.0, 20000.0), 0.223, 0.01),
    },
}
"""Titsias and Dellaportas, Gradient-based Adaptive Markov Chain Monte Carlo (NeurIPS 2019), Tables 1 to 7."""

SLIDES: dict[str, dict[str, Published]] = {
    "neal": {
        "gadMALAf": Published(8.7, 0.563, (1431.2, 2001.2, 2470.5), 165.08, 18.8),
        "gadMALAe": Published(10.1, 0.535, (940.5, 2006.3, 2747.6), 93.67, 10.28),
        "gadRWM": Published(6.3, 0.252, (24.9, 65.4, 122.2), 3.93, 0.71),
        "AM": Published(2.3, 0.257, (8.7, 48.6, 829.1), 3.83, 0.89),
        "RWM": Published(2.1, 0.261, (2.9, 8.4, 2547.6), 1.38, 0.06),
        "MALA": Published(3.0, 0.53, (2.9, 10.0, 12489.2), 0.99, 0.03),
        "HMC-20": Published(47.4, 0.694, (306.1, 1537.8, 19732.4), 6.47, 3.52),
        "NUTS": Published(360.5, 0.7, (18479.6, 20000.0, 20000.0), 51.28, 1.64),
    },
    "caravan": {
        "gadMALAf": Published(24.8, 0.599, (204.8, 785.9, 1129.5), 8.3, 2.34),
        "gadMALAe": Published(91.5, 0.492, (56.4, 496.4, 1420.2), 0.62, 0.16),
        "gadRWM": Published(23.0, 0.227, (5.6, 35.5, 98.8), 0.24, 0.04),
        "AM": Published(18.2, 0.257, (3.2, 11.8, 62.5), 0.18, 0.02),
        "RWM": Published(17.4, 0.242, (3.0, 9.3, 52.5), 0.17, 0.02),
        "MALA": Published(22.5, 0.543, (4.4, 28.3, 326.0), 0.2, 0.06),
        "HMC-10": Published(225.8, 0.711, (248.3, 2415.7, 19778.7), 1.1, 0.14),
        "NUTS": Published(1412.1, 0.7, (7469.5, 20000.0, 20000.0), 5.29, 0.38),
    },
}
"""Table 1 of the authors' slides on the same paper: another run of the gad methods, and different times."""

FIGURE_1_BETA = {0.25: 7.4, 0.4: 2.2}
"""Last value of β by target acceptance, gadRWM on the Gaussian of correlation 0.99 (paper, Figure 1)."""

FIGURE_1_EIGENVALUES = (0.01, 12.07)
"""Range of the eigenvalues of the 51-dimensional Gaussian's covariance (paper, section 4.1)."""

FIGURE_6_RANGE = (-3_400, -3_100)
"""Limits of the plot of log-target traces on MNIST (paper, Figure 6)."""
