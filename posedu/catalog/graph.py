"""Catalog records of encodings of trees and graphs, whose positions are no numbers."""

from posedu.catalog.records import EncodingRecord, SpecialCase, Variant, variant


def _block(variant: Variant) -> int:
    """Return ``block``, the number of features in each rotated block.

    ``variant`` is a configuration (set of options) of the algebraic encoding.
    """
    return int(variant.options["block"])


ENCODINGS = (
    EncodingRecord(
        name="algebraic",
        title="Algebraic positional encodings",
        paper="kogkalidis2023",
        arxiv="2312.16045",
        kind="features",
        hooks=("rotate",),
        file="graph.algebraic",
        module="Algebraic",
        variants=(
            variant(block=3, module={"depth": 2}),
            variant("heads", block=2, module={"depth": 2}),
            variant(block=8, module={"depth": 2}, has_symbolic=False),
        ),
        chapter="trees-and-graphs",
        lab="trees-and-graphs",
        parameters="h*2*d*(b-1)/2",
        cost="O(L d b) a head and layer, and O(L d b² · steps) for the products",
        relative="exactly: on the path between two nodes",
        bounded="yes: norms are preserved",
        special_cases=(
            SpecialCase(
                "rope",
                "on ℤ: one step, one branch, blocks of 2, RoPE's frequencies",
                "eq-trees-rope",
            ),
            SpecialCase(
                "axial",
                "on ℤ²: one step, each branch rotates blocks of 2 of its own as RoPE",
                "eq-trees-axial",
            ),
        ),
        axes=4,
        unit=_block,
    ),
    EncodingRecord(
        name="laplacian",
        title="Laplacian eigenvectors",
        paper="dwivedi2020",
        arxiv="2012.09699",
        kind="features",
        hooks=("embed",),
        file="graph.laplacian",
        function="embed_laplacian",
        module="Laplacian",
        variants=(variant(module={"eigenvectors": 2}, heads=1),),
        chapter="trees-and-graphs",
        lab="trees-and-graphs",
        parameters="D*(N+1)",
        cost="O(L d k) once, at the input; O(L³) once for the eigenvectors of a graph",
        relative="no: the products of eigenvectors depend on both nodes",
        bounded="yes: eigenvectors have length 1",
        special_cases=(
            SpecialCase(
                "sinusoidal",
                "the graph is a cycle: pairs of eigenvectors are cosines and sines of "
                "the position, of frequencies that close the cycle",
                "eq-trees-cycle",
                kind="part",
            ),
        ),
        sizes=("d_model",),
        axes=2,
        unit=1,
    ),
    EncodingRecord(
        name="random-walk",
        title="Random-walk encoding",
        paper="dwivedi2022",
        arxiv="2110.07875",
        kind="features",
        hooks=("embed",),
        file="graph.random_walk",
        function="embed_random_walk",
        module="RandomWalk",
        variants=(variant(module={"steps": 3}, heads=1),),
        chapter="trees-and-graphs",
        lab="trees-and-graphs",
        parameters="D*(N+1)",
        cost="O(L d k) once, at the input; O(L³ k) once for a graph's powers",
        relative="no: nodes that a symmetry maps to each other have one vector",
        bounded="yes: probabilities are at most 1",
        sizes=("d_model",),
        axes=3,
        unit=1,
    ),
)
