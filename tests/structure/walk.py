"""Which modules a function passes: calls followed by name, through the whole product.

Rules
-----
- A *room* is a module of the product with at least one function or method whose body is reached. Both ways of an `if`
  are followed, so a room may be one that no single run enters.
- Followed are calls, and functions given to a call as an argument (callbacks). To call a class is to call `__init__`,
  `__post_init__` or `__new__` where it or a base of the product has one, so a plain record is no room; to make an
  exception is no call. `with` also calls `__enter__` and `__exit__`. Decorators are not followed, annotations and plain
  references to classes neither.
- A name means what the function, then the module, binds it to: a definition, or an import, wherever in the file it
  stands, through the packages that pass it on.
- The receiver of a method has the type of its annotation (parameter, attribute of a class, dataclass field), of the
  class that was called to make it, or of the annotation of what the called function returns; `X | None` is X, of a
  union every member is followed, and `for x in xs` gives x what the last argument of the container's annotation is.
- A property of such a receiver is followed as a call is.
- Where no type is known, a method is followed if exactly one class of the product defines a method of this name, in a
  module that the caller's own imports, and no built-in container, string, number, array or file has one.
- A method of a Protocol, or an abstract one, ends the walk at the Protocol: what stands behind a socket is not named.
- An imported name is not a call: a module of which only a constant or a type is used is no room.
"""

from __future__ import annotations

import ast
import io
import pathlib
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tests.structure.tree import Module, Tree

Function = ast.FunctionDef | ast.AsyncFunctionDef
FOREIGN: Final = {
    name
    for kind in (str, bytes, list, dict, set, tuple, int, float, memoryview, np.ndarray, io.BytesIO, io.StringIO)
    for name in dir(kind)
} | set(dir(pathlib.Path))
"""Names of methods that a receiver of unknown type has most likely from a foreign class."""
CONTAINERS: Final = {
    "list", "tuple", "set", "frozenset", "dict", "deque", "Sequence", "Iterable", "Iterator", "Collection", "Mapping",
    "MutableMapping", "MutableSequence", "Generator",
}  # fmt: skip
WRAPPERS: Final = {"Annotated", "Final", "ClassVar", "type", "Type", "Optional", "AbstractContextManager"}
MADE_BY: Final = ("__init__", "__post_init__", "__new__")


@dataclass(frozen=True, eq=False)
class Definition:
    """A function or a class, and where it stands."""

    module: Module
    node: Function | ast.ClassDef
    owner: Definition | None = None

    @property
    def name(self) -> str:
        """As the module names it, below its class."""
        return f"{self.owner.name}.{self.node.name}" if self.owner else self.node.name


@dataclass
class _Types:
    """What a value may be: instances of classes, and for a container those of its elements."""

    classes: set[Definition] = field(default_factory=set)
    elements: set[Definition] = field(default_factory=set)

    def __or__(self, other: _Types) -> _Types:
        return _Types(self.classes | other.classes, self.elements | other.elements)


class Walk:
    """Follows calls through a tree.

    Parameters
    ----------
    tree : Tree
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._scopes = {name: _bindings(module, module.tree) for name, module in tree.modules.items()}
        self._methods: dict[Definition, dict[str, Definition]] = {}
        self._by_method: dict[str, list[Definition]] = defaultdict(list)
        self._attributes: dict[Definition, dict[str, tuple[ast.expr, bool]]] = {}
        for module in tree.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    self._add_class(module, node)

    def _add_class(self, module: Module, node: ast.ClassDef) -> None:
        known = self._scopes[module.name].get(node.name)
        own = known if isinstance(known, Definition) and known.node is node else Definition(module, node)
        methods = {one.name: Definition(module, one, own) for one in node.body if isinstance(one, Function)}
        self._methods[own] = methods
        self._attributes[own] = dict(_attributes(node))
        for name, method in methods.items():
            self._by_method[name].append(method)

    def find(self, name: str) -> Definition | None:
        """Return the one function `name`, or method `Class.name`, of the tree; None if there is none."""
        owner, _, method = name.rpartition(".")
        if owner:
            found = [one[method] for held, one in self._methods.items() if held.node.name == owner and method in one]
        else:
            found = [
                bound
                for scope in self._scopes.values()
                for bound in scope.values()
                if isinstance(bound, Definition) and bound.node.name == name and isinstance(bound.node, Function)
            ]
        if len(found) > 1:
            raise ValueError(f"{name} is defined {len(found)} times")
        return found[0] if found else None

    def rooms(self, start: Definition) -> dict[str, int]:
        """Return each module that is entered from a function, its own included, and after how many calls."""
        rooms: dict[str, int] = {}
        seen, waiting = {start}, deque([(start, 0)])
        while waiting:
            here, calls = waiting.popleft()
            rooms.setdefault(here.module.name, calls)
            if self._ends_here(here):
                continue
            for one in self._bodies(_Body(self, here).follows()):
                if one not in seen:
                    seen.add(one)
                    waiting.append((one, calls + 1))
        return rooms

    def _bodies(self, named: Iterable[Definition]) -> Iterator[Definition]:
        """Yield the functions among what is called, and for a class those that make an instance."""
        for one in named:
            if isinstance(one.node, Function):
                yield one
            elif not self._is_exception(one):
                yield from self._made_by(one)

    def _is_exception(self, one: Definition, depth: int = 0) -> bool:
        assert isinstance(one.node, ast.ClassDef)
        if any(_last(base).endswith(("Exception", "Error")) for base in one.node.bases):
            return True
        return depth < 8 and any(self._is_exception(base, depth + 1) for base in self.bases(one))

    def resolved(self, module: Module, name: str, depth: int = 0) -> Definition | Module | None:
        """Return what a module's top level, or the import it stands for, binds a name to."""
        bound = self._scopes[module.name].get(name)
        if bound is None and module.path.name == "__init__.py":
            return self._tree.modules.get(f"{module.name}.{name}")
        return self.imported(bound, depth) if isinstance(bound, tuple) else bound

    def imported(self, bound: tuple[str, str], depth: int = 0) -> Definition | Module | None:
        """Return what `from module import name` binds; without a name, the module."""
        source, name = bound
        if not name:
            return self._tree.modules.get(source)
        below = self._tree.modules.get(f"{source}.{name}")
        if below is not None:
            return below
        holder = self._tree.modules.get(source)
        return self.resolved(holder, name, depth + 1) if holder is not None and depth < 8 else None

    def method(self, owner: Definition, name: str, depth: int = 0) -> Definition | None:
        """Return a method of a class or of the nearest base that has it."""
        own = self._methods.get(owner, {}).get(name)
        if own is not None or depth > 8:
            return own
        for base in self.bases(owner):
            found = self.method(base, name, depth + 1)
            if found is not None:
                return found
        return None

    def bases(self, owner: Definition) -> Iterator[Definition]:
        """Yield the bases of a class that the product defines."""
        assert isinstance(owner.node, ast.ClassDef)
        for base in owner.node.bases:
            found = self.expressed(owner.module, base.value if isinstance(base, ast.Subscript) else base)
            if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef):
                yield found

    def expressed(self, module: Module, node: ast.expr) -> Definition | Module | None:
        """Return what a dotted name means at a module's top level."""
        if isinstance(node, ast.Name):
            return self.resolved(module, node.id)
        if isinstance(node, ast.Attribute):
            holder = self.expressed(module, node.value)
            return self.resolved(holder, node.attr) if isinstance(holder, Module) else None
        return None

    def annotated(self, module: Module, node: ast.expr | None, depth: int = 0) -> _Types:
        """Return what a value of an annotation may be."""
        if node is None or depth > 8:
            return _Types()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self.annotated(module, ast.parse(node.value, mode="eval").body, depth + 1)
            except SyntaxError:
                return _Types()
        if isinstance(node, ast.BinOp):
            return self.annotated(module, node.left, depth + 1) | self.annotated(module, node.right, depth + 1)
        if isinstance(node, ast.Subscript):
            return self._generic(module, node, depth)
        found = self.expressed(module, node)
        if isinstance(found, Definition):
            return _Types({found}) if isinstance(found.node, ast.ClassDef) else _Types()
        return self._alias(module, node, depth)

    def _generic(self, module: Module, node: ast.Subscript, depth: int) -> _Types:
        name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        given = [one for one in inner if not (isinstance(one, ast.Constant) and one.value is Ellipsis)]
        if name in WRAPPERS:
            return self.annotated(module, given[0], depth + 1)
        if name in CONTAINERS and given:
            return _Types(set(), self.annotated(module, given[-1], depth + 1).classes)
        return self.annotated(module, node.value, depth + 1)

    def _alias(self, module: Module, node: ast.expr, depth: int) -> _Types:
        """Return what `Alias = A | B` at the top level of a module, or of that it is imported from, stands for."""
        if not isinstance(node, ast.Name):
            return _Types()
        bound = self._scopes[module.name].get(node.id)
        if isinstance(bound, tuple):
            holder = self._tree.modules.get(bound[0])
            return self.annotated(holder, ast.Name(bound[1]), depth + 1) if holder and bound[1] else _Types()
        for line in module.tree.body:
            if (
                isinstance(line, ast.Assign)
                and isinstance(line.value, ast.BinOp)
                and any(isinstance(one, ast.Name) and one.id == node.id for one in line.targets)
            ):
                return self.annotated(module, line.value, depth + 1)
        return _Types()

    def attribute(self, owner: Definition, name: str, depth: int = 0) -> _Types:
        """Return what an attribute of an instance may be."""
        found = self._attributes.get(owner, {}).get(name)
        if found is not None:
            expression, is_annotation = found
            if is_annotation:
                return self.annotated(owner.module, expression)
            made = self.expressed(owner.module, expression)
            return _Types({made}) if isinstance(made, Definition) and isinstance(made.node, ast.ClassDef) else _Types()
        method = self._methods.get(owner, {}).get(name)
        if method is not None and _is_property(method):
            return self.returned(method)
        if depth < 8:
            for base in self.bases(owner):
                types = self.attribute(base, name, depth + 1)
                if types.classes or types.elements:
                    return types
        return _Types()

    def returned(self, called: Definition) -> _Types:
        """Return what a call of a function or class gives."""
        if isinstance(called.node, ast.ClassDef):
            return _Types({called})
        types = self.annotated(called.module, called.node.returns)
        names = {_last(one) for one in called.node.decorator_list}
        if "contextmanager" in names:
            return _Types(types.elements)
        if isinstance(called.node.returns, ast.Name) and called.node.returns.id == "Self" and called.owner:
            return _Types({called.owner})
        return types

    def only_method(self, name: str, module: Module) -> Definition | None:
        """Return the method of this name if no other class has one, and a module knows where it is defined."""
        found = self._by_method.get(name, [])
        if len(found) != 1 or name in FOREIGN:
            return None
        there = found[0].module.name
        return found[0] if there in {module.name, *self._tree.imports_of(module.name)} else None

    def _made_by(self, made: Definition) -> Iterator[Definition]:
        for name in MADE_BY:
            found = self.method(made, name)
            if found is not None:
                yield found

    def _ends_here(self, method: Definition) -> bool:
        if method.owner is None:
            return False
        assert isinstance(method.owner.node, ast.ClassDef)
        bases = {_last(base) for base in method.owner.node.bases}
        return "Protocol" in bases or any("abstract" in _last(one) for one in method.node.decorator_list)


class _Body:
    """One function: the types of its names, and what it leads to."""

    def __init__(self, walk: Walk, here: Definition) -> None:
        assert isinstance(here.node, Function)
        self._walk, self._here, self._node = walk, here, here.node
        self._scope = _bindings(here.module, here.node)
        self._types: dict[str, _Types] = {}
        self._learn_parameters(here.node)
        for _ in range(2):  # what is assigned may be made of what is assigned further below
            for inner in ast.walk(here.node):
                self._learn(inner)

    def follows(self) -> Iterator[Definition]:
        """Yield the functions and classes that the body calls, passes to a call, or reads as properties."""
        for inner in self._code():
            if isinstance(inner, ast.Call):
                yield from self._targets(inner.func)
                for given in [*inner.args, *(one.value for one in inner.keywords)]:
                    yield from (one for one in self._targets(given) if isinstance(one.node, Function))
            elif isinstance(inner, ast.With):
                yield from self._entered(inner)
            elif isinstance(inner, ast.Attribute):
                yield from (one for one in self._targets(inner, typed=True) if _is_property(one))

    def _code(self) -> Iterator[ast.AST]:
        """Yield the nodes of the body, without annotations and decorators."""
        waiting: list[ast.AST] = list(self._node.body)
        while waiting:
            node = waiting.pop()
            yield node
            skipped: list[ast.AST] = []
            if isinstance(node, Function):
                skipped = [node.args, *node.decorator_list, *([node.returns] if node.returns else [])]
            elif isinstance(node, ast.AnnAssign):
                skipped = [node.annotation]
            waiting += [child for child in ast.iter_child_nodes(node) if all(child is not one for one in skipped)]

    def _entered(self, node: ast.With) -> Iterator[Definition]:
        for item in node.items:
            for owner in self._value(item.context_expr).classes:
                for name in ("__enter__", "__exit__"):
                    found = self._walk.method(owner, name)
                    if found is not None:
                        yield found

    def _targets(self, node: ast.expr, *, typed: bool = False) -> Iterator[Definition]:
        """Yield what an expression names: functions and classes."""
        if isinstance(node, ast.Name):
            found = self._named(node.id)
            if isinstance(found, Definition):
                yield found
            return
        if not isinstance(node, ast.Attribute):
            return
        holder = self._holder(node.value)
        if isinstance(holder, Module):
            found = self._walk.resolved(holder, node.attr)
            if isinstance(found, Definition):
                yield found
            return
        owners = {holder} if isinstance(holder, Definition) else self._value(node.value).classes
        if not owners and isinstance(node.value, ast.Call) and _last(node.value.func) == "super" and self._here.owner:
            owners = set(self._walk.bases(self._here.owner))
        known = [one for one in (self._walk.method(owner, node.attr) for owner in owners) if one is not None]
        yield from known
        if not owners and not typed:
            only = self._walk.only_method(node.attr, self._here.module)
            if only is not None:
                yield only

    def _holder(self, node: ast.expr) -> Definition | Module | None:
        """Return the module or class that an expression names, if it names one."""
        if isinstance(node, ast.Name):
            found = self._named(node.id)
            return found if isinstance(found, Module) or (found and isinstance(found.node, ast.ClassDef)) else None
        if isinstance(node, ast.Attribute):
            holder = self._holder(node.value)
            found = self._walk.resolved(holder, node.attr) if isinstance(holder, Module) else None
            return found if isinstance(found, Module) or (found and isinstance(found.node, ast.ClassDef)) else None
        return None

    def _named(self, name: str) -> Definition | Module | None:
        if name in self._types:
            return None
        bound = self._scope.get(name)
        if bound is None:
            return self._walk.resolved(self._here.module, name)
        return self._walk.imported(bound) if isinstance(bound, tuple) else bound

    def _value(self, node: ast.expr | None) -> _Types:
        """Return what an expression may be."""
        if isinstance(node, ast.Name):
            return self._types.get(node.id, _Types())
        if isinstance(node, ast.Attribute):
            found = _Types()
            for owner in self._value(node.value).classes:
                found |= self._walk.attribute(owner, node.attr)
            return found
        if isinstance(node, ast.Call):
            found = _Types()
            for called in self._targets(node.func):
                found |= self._walk.returned(called)
            return found
        if isinstance(node, ast.Subscript):
            return _Types(self._value(node.value).elements)
        if isinstance(node, ast.IfExp):
            return self._value(node.body) | self._value(node.orelse)
        if isinstance(node, ast.BoolOp):
            found = _Types()
            for one in node.values:
                found |= self._value(one)
            return found
        if isinstance(node, ast.NamedExpr | ast.Await):
            return self._value(node.value)
        return _Types()

    def _learn_parameters(self, node: Function) -> None:
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for one in given:
            self._types[one.arg] = self._walk.annotated(self._here.module, one.annotation)
        owner = self._here.owner
        if owner is not None and given and given[0].arg in {"self", "cls"}:
            self._types[given[0].arg] = _Types({owner})

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, Function) and node is not self._node:
            for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
                self._types.setdefault(one.arg, self._walk.annotated(self._here.module, one.annotation))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value, self._value(node.value))
        elif isinstance(node, ast.AnnAssign):
            self._bind(node.target, None, self._walk.annotated(self._here.module, node.annotation))
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, None, self._value(node.value))
        elif isinstance(node, ast.For | ast.comprehension):
            self._bind(node.target, None, _Types(self._value(node.iter).elements))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, None, self._value(node.context_expr))

    def _bind(self, target: ast.expr, value: ast.expr | None, types: _Types) -> None:
        if isinstance(target, ast.Name):
            self._types[target.id] = self._types.get(target.id, _Types()) | types
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, given in zip(target.elts, value.elts, strict=True):
                self._bind(one, given, self._value(given))
        elif isinstance(target, ast.Tuple):
            for one in target.elts:
                self._bind(one, None, _Types())


def _bindings(module: Module, scope: ast.Module | Function) -> dict[str, Definition | tuple[str, str]]:
    """Return what definitions and imports bind in a scope; those of inner scopes and of classes left out."""
    found: dict[str, Definition | tuple[str, str]] = {}
    waiting: list[ast.AST] = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Function | ast.ClassDef):
            found[node.name] = Definition(module, node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                found[name] = (alias.name if alias.asname else name, "")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = (module.source_of(node), alias.name)
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, tuple[ast.expr, bool]]]:
    """Yield each attribute with its annotation, or with the class that is called to make it (False)."""
    for method in (one for one in node.body if isinstance(one, Function)):
        given = {one.arg: one.annotation for one in [*method.args.args, *method.args.kwonlyargs]}
        for line in ast.walk(method):
            targets = line.targets if isinstance(line, ast.Assign) else []
            pairs: list[tuple[ast.expr, ast.expr]] = []
            for target in targets:
                assert isinstance(line, ast.Assign)
                if isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple):
                    pairs += zip(target.elts, line.value.elts, strict=False)
                else:
                    pairs.append((target, line.value))
            for target, value in pairs:
                if not _is_own(target):
                    continue
                assert isinstance(target, ast.Attribute)
                if isinstance(value, ast.Name) and given.get(value.id) is not None:
                    yield target.attr, (given[value.id], True)  # type: ignore[misc]
                elif isinstance(value, ast.Call):
                    yield target.attr, (value.func, False)
        for line in ast.walk(method):
            if isinstance(line, ast.AnnAssign) and _is_own(line.target):
                assert isinstance(line.target, ast.Attribute)
                yield line.target.attr, (line.annotation, True)
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id, (line.annotation, True)


def _is_own(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _is_property(one: Definition) -> bool:
    return isinstance(one.node, Function) and any("property" in _last(name) for name in one.node.decorator_list)


def _last(node: ast.expr) -> str:
    """Return the last part of a dotted name, without arguments or a subscript."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
