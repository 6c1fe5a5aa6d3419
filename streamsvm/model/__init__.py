"""The contract: what a published version is, as every reader needs it; numpy and msgspec, and nothing that learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.model import (
        deciles_header as deciles_header,
        message as message,
        parts as parts,
        pointers as pointers,
        probes as probes,
        skill_header as skill_header,
        threshold as threshold,
        trail as trail,
    )
    from streamsvm.model.additive import AdditiveMachine as AdditiveMachine, Surface as Surface
    from streamsvm.model.ancestry import Ancestor as Ancestor, linked as linked
    from streamsvm.model.class_skill import (
        ClassSkill as ClassSkill,
        class_complaint as class_complaint,
        class_doubt as class_doubt,
    )
    from streamsvm.model.classes import (
        AdditiveMachines as AdditiveMachines,
        AnyModel as AnyModel,
        ClassModel as ClassModel,
        KernelMachines as KernelMachines,
        LinearMachines as LinearMachines,
        machines_of as machines_of,
        shares_of as shares_of,
    )
    from streamsvm.model.comparison import Hashed as Hashed, compare as compare
    from streamsvm.model.correctness import answers as answers, balanced_accuracy as balanced_accuracy
    from streamsvm.model.deciles import Deciles as Deciles, deciles_of as deciles_of
    from streamsvm.model.features import InvalidFeatures as InvalidFeatures
    from streamsvm.model.fit import Audit as Audit, Fit as Fit, MachineFit as MachineFit
    from streamsvm.model.kernels import (
        Float as Float,
        Kernel as Kernel,
        LinearKernel as LinearKernel,
        RbfKernel as RbfKernel,
    )
    from streamsvm.model.left_out import left_out_key as left_out_key
    from streamsvm.model.machine import (
        KernelMachine as KernelMachine,
        LinearMachine as LinearMachine,
        Machine as Machine,
        Model as Model,
        Packing as Packing,
        Scaler as Scaler,
    )
    from streamsvm.model.message import (
        SCHEMA_HEADER as SCHEMA_HEADER,
        SHA256_HEADER as SHA256_HEADER,
        TIME_HEADER as TIME_HEADER,
        content_sha256 as content_sha256,
        encode as encode,
    )
    from streamsvm.model.packing import Grid as Grid
    from streamsvm.model.parts import names as names
    from streamsvm.model.parts.part import MessagePart as MessagePart
    from streamsvm.model.pointers import (
        Alias as Alias,
        Gate as Gate,
        GatePart as GatePart,
        GateRival as GateRival,
        Head as Head,
        Owner as Owner,
        Retired as Retired,
        current_key as current_key,
        decode_alias as decode_alias,
        decode_head as decode_head,
        decode_owner as decode_owner,
        decode_record as decode_record,
        decode_retired as decode_retired,
        encode_alias as encode_alias,
        encode_head as encode_head,
        encode_owner as encode_owner,
        encode_retired as encode_retired,
        head_key as head_key,
        links_after as links_after,
        owner_key as owner_key,
        pin_key as pin_key,
        retired_key as retired_key,
    )
    from streamsvm.model.positive_label import TwoLabels as TwoLabels, two_labels as two_labels
    from streamsvm.model.probability import Sigmoid as Sigmoid
    from streamsvm.model.probes import probes_of as probes_of
    from streamsvm.model.reasons import Explainer as Explainer, Reasons as Reasons
    from streamsvm.model.skill import (
        Answers as Answers,
        Estimate as Estimate,
        SampleFigures as SampleFigures,
        Skill as Skill,
        State as State,
        complaint as complaint,
        doubt as doubt,
        spelt as spelt,
    )
    from streamsvm.model.threshold import Figure as Figure, Judged as Judged, Threshold as Threshold
    from streamsvm.model.version import (
        LEAST_KEPT as LEAST_KEPT,
        Lineage as Lineage,
        Memory as Memory,
        PartitionCut as PartitionCut,
        PartitionHorizons as PartitionHorizons,
        StreamSummary as StreamSummary,
        TuningInForce as TuningInForce,
        Version as Version,
        partition_cuts as partition_cuts,
        positions as positions,
        version_key as version_key,
        version_number as version_number,
    )

__getattr__ = on_first_use(__name__, __file__)
