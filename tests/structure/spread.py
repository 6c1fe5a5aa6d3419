"""How far each branch is spread: which files outside its own name it.

A file names a branch if it imports from the branch's folders, or if one of its *words* matches the branch's expression.
Words are the identifiers of the code (names, attributes, parameters, arguments, definitions), the dotted names of
imports, and those strings that are one word, such as keys, names of options and metrics; docstrings and comments are
not looked at. Words that mean something else as often (`event`, `bound`, `served`, `span`, `recipe`) are left out, so a
file may know a branch and not be counted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeGuard

from tests.structure.tree import Module, Tree

WORDS: Final[Mapping[str, str]] = {
    "events": r"""
        ^events\.\w | ^--envelope$ | envelope | ^(Canonical)?Recipe(Part)?$ | ^recipe_(of|from|given)$ |
        ^ArrowEvents$ |
        ^Events?(Config|Points|Reader|Records|Parser|Time|Sampler|Scanner|Vectorizer?)$ | ^features_of_events$ |
        ^_?(of_events|events_of|events_in|event_of|event_time|newest_events|points_of_events)$ |
        ^streamsvm\.ingest\.(event_\w+|events|envelopes|field_slots|json_fields)\b |
        ^streamsvm\.ingest\.(proto_files|arrow_events)\b |
        \b(event_files|onnx_events)\b""",
    "late_labels": r"""
        [Ll]ate_?[Ll]abels | ^_?labels_(topic|id|next|log|letters|identity|waiting|surveyor|offsets?|of_log)$ |
        ^LabelsPart$ |
        ^Labels?(Log|Origin|Config|Decoder|Rows)$ | \blabel_records\b | ^joined_labels$ |
        ^labels\.(topic|horizon)$ |
        ^_?join(ed|er|ers|ing)?_\w | ^_?joiners?$ | ^_joinable$ | ^require_joinable$ | ^_?survey_joined$ |
        ^(Placed|Partition|Snapshot|Cut)?Join([A-Z]\w*)?$ | ^Joined\w+ | ^Joining$ | ^Joiner$ | ^streamsvm_join_ |
        ^streamsvm\.joining\.(joiner|kernels|log_time)\b | ^consumers\.\w+\.joined_\w+""",
    "memories": r"""
        half_li(fe|ves) | HALF_LI(FE|VES) | ^(coreset\.)?window_(s|points)$ | [Ff]orgetful | ^forgets$ | [Dd]yadic |
        ^streamsvm\.coreset\.(forgetting|shares)\b |
        ^(decay|Decay|TimeDecay|TimeWindow|Voting|PlacedVoting|PlacedShares)$ |
        \bvoting\b | ^coreset\.memory$ | ^Memory(Name|Part)$ | ^Horizon$""",
    "bounds": r"""
        ^_?certif(y|ied|ier|iers|ying|ier_of)$ | ^Certif(ied|ier)$ | ^streamsvm\.certificate\b | ^CERTIFICATE$ |
        ^certificate_(difference|header)?$ | ^[Pp]roof(Epoch|_of|_form)?$ | ^write_proof$ | \bproving\b |
        ^gap_proven$ | ^[Tt]otals_of$ | ^Totals$ |
        ^streamsvm\.coreset\.totals | ^[Ll]edger$ | ^_?(show_)?certified(_gap)?$ |
        streamsvm_model_(certified_gap|gap_proven)""",
    "history": r"""
        [Aa]rchiv(e|ed|al|ist|ing|able)?\b | ^_?archive_\w | ^--archive | ^streamsvm_archive | ^ArchiveConfig$ |
        ^_?eras(ed|e|ure|ing)$ | ^Eras(ed|ure)$ | ^ERAS(ED|URE)$ | ^(decode|encode|refuse)_eras | ^erased_\w |
        ^(Rows)?Erased(Rows)?$ |
        ^(streamsvm|consumers)[\w.]*\.(erased\w*|erasing|erasure|archiv\w+|stretches|building|rebuilding|refining)\b |
        ^Forgotten$ | \barchive\.forgotten\b | ^masked$ | ^Built(Of|Part)?$ | ^built$ |
        ^[Rr]efin(e|ed|ing)(_command|Part)?$ | ^[Rr]ebuil(d|t)$ | ^rebuild_command$ | ^publish_built$ |
        ^forget_command$ |
        ^[Aa]ligned$ | \bcoreset\.aligned\b | ^(coreset\.)?span_(rows|points)$ | ^SpanPartition$""",
    "workers": r"""
        ^workers$ | ^Workers$ | ^(training[._]+|--)workers$ | ^worker[._]\w | ^WorkerConfig$ | ^GroupWorker$ |
        ^(to|from)_worker$ | ^Crew$ | \bcrew\b | ^_?[Aa]dopting$ | ^[Cc]ombiner$ | \bcoreset_log\b |
        ^coresets?_topic$ |
        ^manifests?$ | ^Manifest$ | ^[Oo]wnership$ | \bkafka\.ownership\b | ^(worker\.|--)?ordinal$ |
        \bbackfill(_process)?\b |
        ^streamsvm_(coresets_|workers?) | ^consumers\.trainer\.workers\b""",
    "challenges": r"""
        [Cc]halleng | CHALLENG | ^_?[Ss]hadows?(_\w+)?$ | ^ShadowGate$ | ^Served(Scores|Labels|Quality)?$ |
        streamsvm_shadow |
        \b(quality|joining)\.served\b | \bconsumers\.served\b | ^served_command$""",
    "landmarks": r"""
        [Ll]andmark | LANDMARK | ^(most_)?in_half$ | ^half_precision$ | ^HalfPrecisionPart$ |
        ^[Pp]acking$ | ^packed(_part)?$ | ^PackedPart$ |
        ^float16$""",
    "classes": r"""
        ^Class(Model|Skill|Screen|Screened|Screener|Prequential|Figures|Baseline|esPart|esAnswered)$ |
        ^Classes(Part)?$ |
        \bclass_(skill|screening|prequential|screen|summary|figures|skill_of|complaint|doubt)(_kernels)?\b |
        ^_?make_class_screen$ | ^[Mm]ulticlass$ | ^one_vs_(one|rest)$ | ^OneVs(One|Rest)$ | \bmodel\.classes\b |
        \bonnx_classes\b | ^MOST_CLASSES | ^ScreenClasses$ | ^_?counts_classes$""",
}  # fmt: skip
"""The words of each branch, as a regular expression that is searched in one word at a time."""
ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "workers": ("streamsvm/svm/*", "streamsvm/estimators/*"),  # threads of a solver
    "late_labels": ("streamsvm/svm/*",),  # rows that join a working set
    "bounds": ("consumers/host/*",),  # peers with a certificate
}
"""Where words of a branch mean something else."""

OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "events": (
        "streamsvm/ingest/event*.py", "streamsvm/ingest/envelopes.py", "streamsvm/ingest/json_fields.py",
        "streamsvm/ingest/field_slots.py", "streamsvm/ingest/proto*.py", "streamsvm/ingest/arrow_events.py",
        "streamsvm/ingest/sampling.py", "streamsvm/ingest/files/event_files.py",
        "streamsvm/ingest/unread_fields.py", "streamsvm/ingest/logical_decimals.py", "streamsvm/features/*.py",
        "streamsvm/model/parts/recipe.py", "streamsvm/registry/onnx_events.py", "streamsvm/estimators/events.py",
        "consumers/streams/sampling.py", "consumers/streams/absent_fields.py", "consumers/streams/unread_*.py",
        "consumers/cli/features.py",
    ),
    "late_labels": (
        "streamsvm/joining/__init__.py", "streamsvm/joining/joiner.py", "streamsvm/joining/kernels.py",
        "streamsvm/joining/log_time.py", "streamsvm/joining/read_log.py", "streamsvm/joining/rows.py",
        "streamsvm/ingest/label_records.py", "streamsvm/checkpoint/parts/join*.py",
        "streamsvm/model/parts/labels_log.py", "consumers/streams/joined_source.py",
        "consumers/trainer/joined_intake.py",
    ),
    "memories": (
        "streamsvm/coreset/forgetting.py", "streamsvm/coreset/dyadic.py", "streamsvm/coreset/shares.py",
        "streamsvm/learning/forgetful.py", "streamsvm/learning/voting.py", "streamsvm/checkpoint/parts/forgetful.py",
        "streamsvm/model/parts/memory*.py",
    ),
    "bounds": (
        "streamsvm/certificate/*.py", "streamsvm/coreset/totals*.py", "streamsvm/learning/proving.py",
        "streamsvm/model/certified.py", "streamsvm/model/proof.py", "streamsvm/checkpoint/parts/totals.py",
        "consumers/verify/proving.py", "deploy/proof/*.py",
    ),
    "history": (
        "streamsvm/archive/*.py", "streamsvm/coreset/aligned.py", "streamsvm/learning/stretches.py",
        "streamsvm/learning/erasing.py", "streamsvm/delivery/erasure.py", "streamsvm/model/erased.py",
        "streamsvm/checkpoint/parts/erased.py", "streamsvm/model/parts/built.py", "streamsvm/model/parts/refined.py",
        "consumers/trainer/archiving.py", "consumers/verify/building.py", "consumers/verify/eras*.py",
        "consumers/verify/forgetting.py", "consumers/verify/rebuilding.py", "consumers/verify/refining.py",
        "consumers/verify/finding.py", "consumers/verify/stretches.py", "consumers/cli/archiving.py",
        "consumers/cli/refining.py",
    ),
    "workers": (
        "streamsvm/learning/combiner.py", "streamsvm/checkpoint/coreset_*.py", "streamsvm/kafka/ownership.py",
        "consumers/trainer/workers/*.py",
    ),
    "challenges": (
        "streamsvm/quality/challenge.py", "streamsvm/quality/served.py", "streamsvm/model/challenge.py",
        "streamsvm/joining/served.py", "consumers/served/*.py", "consumers/trainer/challenges.py",
        "consumers/verify/challenges.py", "consumers/scorer/shadow.py", "consumers/cli/served.py",
    ),
    "landmarks": (
        "streamsvm/coreset/landmarks.py", "streamsvm/learning/landmark_pilots.py", "streamsvm/svm/fit_landmarks.py",
        "streamsvm/model/parts/half_precision*.py",
    ),
    "classes": (
        "streamsvm/model/classes.py", "streamsvm/model/parts/classes*.py", "streamsvm/model/class_skill.py",
        "streamsvm/quality/class_*.py", "streamsvm/coreset/class_*.py", "streamsvm/coreset/reducers/multiclass.py",
        "streamsvm/checkpoint/parts/classes.py", "streamsvm/registry/onnx_classes.py",
    ),
}  # fmt: skip
"""Files of a branch's own in a tree in which it has no folder yet."""

PRINTED: Final = re.compile(r"[\w.\-]+")


def names_of(tree: Tree) -> dict[str, list[Module]]:
    """Return, for each branch, the modules outside its own files that name it."""
    words = {module.name: tuple(words_of(module)) for module in tree.modules.values()}
    found: dict[str, list[Module]] = {}
    for branch, pattern in WORDS.items():
        searched = re.compile(rf"{pattern} | \b(streamsvm|consumers)\.branches\.{branch}\b", re.VERBOSE)
        own = set(own_files(tree, branch))
        found[branch] = [
            module
            for name, module in tree.modules.items()
            if name not in own
            and not module.matches(ELSEWHERE.get(branch, ()))
            and any(searched.search(word) for word in words[name])
        ]
    return found


def own_files(tree: Tree, branch: str) -> list[str]:
    """Return the names of a branch's own modules: those in its folders, and without folders those of `OWN`."""
    placed = [module.name for module in tree.modules.values() if module.branch == branch]
    if placed:
        return placed
    return [module.name for module in tree.modules.values() if module.matches(OWN[branch])]


def words_of(module: Module) -> set[str]:
    """Return the words of a module's code."""
    return set(_words(module))


def _words(module: Module) -> Iterator[str]:
    texts = _docstrings(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield module.source_of(node)
            yield from (f"{module.source_of(node)}.{alias.name}" for alias in node.names)
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif _is_word(node) and id(node) not in texts:
            yield str(node.value)


def _is_word(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and PRINTED.fullmatch(node.value) is not None


def _docstrings(tree: ast.Module) -> set[int]:
    """Return the strings that stand alone as statements."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
