"""Print `docs/sources.md`: what the sources describe, where it is in the library, and the page that shows it.

python -m gadabout.lab.paper.sources > docs/sources.md
"""

from typing import NamedTuple


class Row(NamedTuple):
    """What a section of a source describes, the import path that carries it out, and a page of `docs/` with heading."""

    section: str
    what: str
    where: str
    page: str
    heading: str = ""


SAFEGUARDS, RESULTS, ALGORITHM = "safeguards.md", "results.md", "methods/algorithm1.md"
OTHERS, MINIBATCHES = "methods/others.md", "minibatches.md"

SLIDES = (
    Row("Speed measure", "acceptance rates that are optimal", "gadabout.rwm", "optimal_acceptance.md"),
    Row("Speed measure", "the jump distance, a bad choice", "gadabout.adaptations.JumpDistance", "objectives.md"),
    Row("Generalised speed measure", "s, its two terms", "gadabout.adaptations.SpeedMeasure", ALGORITHM),
    Row("Generalised speed measure", "learning from rejections", "gadabout.gad_rwm", "learning_from_rejections.md"),
    Row("Maximising", "the bound F", "gadabout.adaptations.LogAcceptance", ALGORITHM, "The objective"),
    Row("Maximising", "its reparametrised gradient", "gadabout.adaptations.Pathwise", ALGORITHM, "The objective"),
    Row("Maximising", "β by the acceptance rate", "gadabout.adaptations.SpeedMeasure", ALGORITHM, "The step"),
    Row("Algorithm 1", "for any proposal", "gadabout.gad", "guides/own_proposal.md"),
    Row("Algorithm 1", "random walk, gradient", "gadabout.gad_rwm", ALGORITHM, "gadRWM: a random walk"),
    Row("Algorithm 1", "MALA, exact and fast", "gadabout.gad_mala", ALGORITHM, "gadMALA: preconditioned Langevin"),
    Row("Experiments", "baseline RWM", "gadabout.rwm", RESULTS),
    Row("Experiments", "baseline AM", "gadabout.am", RESULTS),
    Row("Experiments", "baseline MALA", "gadabout.mala", RESULTS),
    Row("Experiments", "baseline HMC with 5, 10, 20 steps", "gadabout.hmc", RESULTS),
    Row("Experiments", "baseline NUTS", "gadabout.nuts", RESULTS),
    Row("Experiments", "Gaussians of 2 and 51 dimensions", "gadabout.lab.paper.figure1", RESULTS),
    Row("Experiments", "Neal's Gaussian, traces and scales", "gadabout.lab.paper.figure2", RESULTS),
    Row("Experiments", "MNIST, the diagonal of L", "gadabout.lab.paper.figure7", RESULTS, "MNIST, 5 against 6"),
)

NOTES = (
    Row("Slide 3", "the two-state chain", "gadabout.finite", "two_state_chain.md"),
    Row("Slide 5", "Metropolis–Hastings", "gadabout.metropolis_hastings", OTHERS, "The Metropolis–Hastings step"),
    Row("Slide 6", "adaptive Metropolis of 2001", "gadabout.haario", OTHERS, "Adaptive Metropolis"),
    Row("Slide 8", "compact sets and resets", "gadabout.adaptations.Reprojection", SAFEGUARDS, "Reprojection"),
    Row("Slide 9", "κ and ν", "gadabout.reprojected", SAFEGUARDS, "Reprojection"),
    Row("Slide 12", "the mean field h", "gadabout.diagnostics.mean_field.mean_field", SAFEGUARDS, "The mean field"),
    Row("Slide 13", "gains, A5", "gadabout.adaptations.check_gains", SAFEGUARDS, "Gains"),
    Row(
        "Slide 14", "the Lyapunov function w", "gadabout.diagnostics.mean_field.lyapunov", SAFEGUARDS, "The mean field"
    ),
)

SCALABLE = (
    Row("Metropolis–Hastings", "acceptance", "gadabout.metropolis_hastings", OTHERS, "The Metropolis–Hastings step"),
    Row("Discretisation", "Euler's method", "gadabout.proposals.Euler", "integrators.md"),
    Row("Discretisation", "leapfrog", "gadabout.proposals.Leapfrog", "integrators.md"),
    Row("Hamiltonian Monte Carlo", "its three steps", "gadabout.hmc", OTHERS, "Hamiltonian Monte Carlo"),
    Row("SGD vs SGLD", "SGLD", "gadabout.sgld", MINIBATCHES, "Step sizes"),
    Row("Stochastic version", "momentum on minibatches", "gadabout.sghmc", MINIBATCHES, "With momentum"),
    Row("RMSProp vs pSGLD", "pSGLD", "gadabout.psgld", MINIBATCHES),
)

SOURCES = {
    "Slides on gradient-based adaptive MCMC": SLIDES,
    "Notes on Andrieu and Moulines": NOTES,
    "Slides on scalable MCMC": SCALABLE,
}


def document() -> str:
    """The page as Markdown."""
    count = sum(map(len, SOURCES.values()))
    parts = [
        "# The sources, row by row",
        f"Where to find what the sources describe: {count} rows of three sources. Rows of the paper and "
        "of the lectures, and some of the three, are not listed yet. The slides' Table 1 is in what "
        "`gadabout reproduce table1` prints.",
    ]
    for title, rows in SOURCES.items():
        lines = [f"| {row.section} | {row.what} | `{row.where}` | [{row.page}]({row.page}) |" for row in rows]
        head = ["| Section | What | In the library | Shown in |", "| --- | --- | --- | --- |"]
        parts += [f"## {title}", "\n".join(head + lines)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(document())
