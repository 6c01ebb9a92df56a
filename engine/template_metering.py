"""Payments written into a template, so that what it does between calls is paid for too.

A payment is a filter of the sandbox's environment: `made` and `compared` let a value through, `joined` is the operator
~, `looped` and `entered` pay for a body by its number of nodes, which stand for the time it takes.
"""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.visitor import NodeTransformer

_REFUSED = (
    nodes.Block, nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include, nodes.ScopedEvalContextModifier
)  # fmt: skip


class Metering(NodeTransformer):
    """Writes payments into a template: where a value is made or compared, and for each time a body is run."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if isinstance(node, _REFUSED) or getattr(node, "recursive", False):
            raise SecurityError(f"line {node.lineno} has what no chat template needs: {type(node).__name__}")
        return super().visit(node, *args, **kwargs)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802  Jinja finds them by these names
        self.generic_visit(node)
        return _payment(nodes.List(node.nodes, lineno=node.lineno), "joined")

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return _payment(self.generic_visit(node), "made")

    visit_Dict = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _payment(node, "made") if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _payment(node, "made") if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        sides: list[Any] = [node, *node.ops]
        constant = [isinstance(side.expr, nodes.Const) for side in sides]
        if len(sides) == 2 and any(constant) and node.ops[0].op not in ("in", "notin"):
            return node  # no longer than the constant takes
        for side, is_constant in zip(sides, constant, strict=True):
            if not is_constant:
                side.expr = _payment(side.expr, "compared")
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = _payment(node.iter, "looped", nodes.Const(_n_nodes(node), lineno=node.lineno))
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        steps = nodes.Const(_n_nodes(node), lineno=node.lineno)
        node.body.insert(0, nodes.Output([_payment(steps, "entered")], lineno=node.lineno))
        return node

    visit_CallBlock = visit_Macro  # noqa: N815


def _payment(node: Any, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _n_nodes(node: nodes.Node) -> int:
    return sum(1 for _ in node.find_all(nodes.Node))
