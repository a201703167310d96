"""Stand-ins on a CPU for the kernels that transformers calls for packed texts.

transformers calls ``causal_conv1d``, flash-linear-attention (``fla``) and ``mamba_ssm``
where they are installed, and hands them the boundaries between texts. The functions
here have the names and arguments of those kernels that ``packed_hybrids.py`` needs, and
loop over tokens, so that they show which boundaries reach a kernel without a GPU.
"""

import importlib.machinery
import sys
import types

import torch
import torch.nn.functional as F


def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, activation=None):
    """Convolve every text alone; ``seq_idx`` numbers the texts."""
    counts = [x.shape[-1]]
    if seq_idx is not None:
        counts = seq_idx[0].unique_consecutive(return_counts=True)[1].tolist()
    options = dict(padding=weight.shape[-1] - 1, groups=x.shape[1])
    texts = [
        F.conv1d(text, weight[:, None], bias, **options)[..., : text.shape[-1]]
        for text in x.split(counts, -1)
    ]
    out = torch.cat(texts, -1)
    return out if activation is None else F.silu(out)


def gated_delta_rule(
    q, k, v, g, beta, output_final_state=False, cu_seqlens=None, **options
):
    """Gated DeltaNet, or KDA where ``g`` has an axis of features."""
    group = v.shape[2] // k.shape[2]
    q, k = (F.normalize(a, dim=-1).repeat_interleave(group, 2) for a in (q, k))
    decay = (g if g.ndim == 4 else g[..., None]).exp()
    starts = {0} if cu_seqlens is None else {*cu_seqlens.tolist()}
    outs = []
    for t in range(q.shape[1]):
        if t in starts:
            state = q.new_zeros(len(q), v.shape[2], q.shape[-1], v.shape[-1])
        state = decay[:, t, ..., None] * state
        read = torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        new = beta[:, t, :, None] * (v[:, t] - read)
        state = state + k[:, t, ..., None] * new[:, :, None]
        outs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    out = torch.stack(outs, 1) * q.shape[-1] ** -0.5
    return out, state if output_final_state else None


def mamba_chunk_scan_combined(
    *inputs, D, dt_bias, dt_limit, seq_idx=None, return_final_states=False
):
    """Mamba-2; ``seq_idx`` numbers the texts. Softplus is always applied to steps."""
    x, dt, A, B, C = inputs[:5]
    dt = F.softplus(dt + dt_bias).clamp(*dt_limit)
    group = x.shape[2] // B.shape[2]
    B, C = (a.repeat_interleave(group, 2) for a in (B, C))
    outs = []
    for t in range(x.shape[1]):
        if t == 0 or (seq_idx is not None and seq_idx[0, t] != seq_idx[0, t - 1]):
            state = x.new_zeros(*x[:, 0].shape, B.shape[-1])
        new = dt[:, t, :, None] * x[:, t]
        state = (dt[:, t] * A).exp()[..., None, None] * state
        state = state + new[..., None] * B[:, t, :, None]
        out = torch.einsum("bhpn,bhn->bhp", state, C[:, t])
        outs.append(out + D[:, None] * x[:, t])
    out = torch.stack(outs, 1)
    return (out, state) if return_final_states else out


MODULES = {
    "causal_conv1d": {"causal_conv1d_fn": causal_conv1d_fn},
    "fla": {},
    "fla.ops": {},
    "fla.ops.gated_delta_rule": {"chunk_gated_delta_rule": gated_delta_rule},
    "fla.ops.kda": {"chunk_kda": gated_delta_rule},
    "mamba_ssm": {},
    "mamba_ssm.ops": {},
    "mamba_ssm.ops.triton": {},
    "mamba_ssm.ops.triton.ssd_combined": {
        "mamba_chunk_scan_combined": mamba_chunk_scan_combined
    },
}


def install() -> None:
    """Put the stand-ins where transformers imports kernels; call it before."""
    for name, functions in MODULES.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        vars(module).update(functions)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
