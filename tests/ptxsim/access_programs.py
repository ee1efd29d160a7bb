"""Generated PTX of memory: loads and stores of every width and space, atomics.

Same form as programs.py.
"""

from __future__ import annotations

from programs import Program

OWN = "mad.lo.u32 %r61, %r60, 16, %r62;"  # this thread's 16 bytes of shared memory
SHARED = f"mov.u32 %r62, sm; {OWN} "
FILL = (
    SHARED + "mul.wide.u32 %d61, %r60, 4; and.b64 %d61, %d61, 1008; add.u64 %d61, %d61, {b0}; ld.global.v4.b32 "
    "{%r30,%r31,%r32,%r33}, [%d61]; st.shared.v4.b32 [%r61], {%r30,%r31,%r32,%r33}; bar.sync 0; "
)
MIX = (
    "xor.b32 {d}, %r30, %r31; shf.l.wrap.b32 {d}, {d}, {d}, 7; xor.b32 {d}, {d}, %r32; shf.l.wrap.b32 {d}, {d}, {d},"
    " 9; xor.b32 {d}, {d}, %r33;"
)
MIX64 = "xor.b64 {d}, %d30, %d31; shl.b64 %d32, {d}, 3; sub.u64 {d}, %d32, %d31;"
SPREAD = "mul.wide.u32 %d61, %r60, 4; and.b64 %d61, %d61, 1008; add.u64 %d61, %d61, {b0}; "  # 16 bytes of input 0


def _loads() -> list[Program]:
    out = []
    spaces = {"global": "[%d61]", "shared": "[%r61]", "shared::cta": "[%r61]", "": "[%d62]", "local": "[loc]"}
    for space, at in spaces.items():
        prepare = FILL + "cvt.u64.u32 %d62, %r61; cvta.shared.u64 %d62, %d62; "
        if space == "local":
            prepare += "st.local.v4.b32 [loc], {%r30,%r31,%r32,%r33}; add.u32 %r30, %r30, 1; "
        dot = f".{space}" if space else ""
        for kind in ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32"):
            # at another place than the 16-byte boundary, and extended to the register's width
            odd = at.replace("]", "+4]")
            reg = "%h30" if kind in ("b16", "u16", "s16") else "%r30"
            widen = "cvt.u32.u16 {d}, %h30;" if reg == "%h30" else "mov.b32 {d}, %r30;"
            out.append(Program(f"{prepare} ld{dot}.{kind} {reg}, {odd}; {widen} // ld{dot}.{kind}", "b32", ("b32",)))
        for kind in ("u16", "s16"):
            out.append(
                Program(
                    f"{prepare} ld{dot}.{kind} %r30, {at.replace(']', '+2]')}; mov.b32 {{d}}, %r30; // ld{dot}.{kind}"
                    " to 32 bits",
                    "b32",
                    ("b32",),
                )
            )
        for kind in ("b64", "u64", "s64", "f64"):
            out.append(
                Program(f"{prepare} ld{dot}.{kind} {{d}}, {at.replace(']', '+8]')}; // ld{dot}.{kind}", "b64", ("b32",))
            )
        for kind in ("v2.b8", "v4.b8", "v2.b16", "v4.b16"):
            n = int(kind[1])
            regs = [f"%h3{i}" for i in range(n)]
            collect = "".join(
                f"shl.b32 {{d}}, {{d}}, 5; cvt.u32.u16 %r40, {r}; xor.b32 {{d}}, {{d}}, %r40; " for r in regs
            )
            out.append(
                Program(
                    f"{prepare} ld{dot}.{kind} {{{', '.join(regs)}}}, {at}; mov.b32 {{d}}, 0; {collect} //"
                    f" ld{dot}.{kind}",
                    "b32",
                    ("b32",),
                )
            )
        for kind in ("v2.b32", "v4.b32", "v2.f32", "v4.f32", "v4.u32"):
            regs = "%r30,%r31" + (",%r32,%r33" if kind[1] == "4" else "")
            out.append(Program(f"{prepare} ld{dot}.{kind} {{{regs}}}, {at}; {MIX} // ld{dot}.{kind}", "b32", ("b32",)))
        for kind in ("v2.b64", "v2.u64"):
            out.append(
                Program(f"{prepare} ld{dot}.{kind} {{%d30,%d31}}, {at}; {MIX64} // ld{dot}.{kind}", "b64", ("b32",))
            )
        out.append(
            Program(
                f"{prepare} ld{dot}.b128 %q1, {at}; mov.b128 {{%d30,%d31}}, %q1; {MIX64} // ld{dot}.b128",
                "b64",
                ("b32",),
            )
        )
    for op in (
        "ld.global.nc.v4.b32",
        "ld.global.nc.L1::no_allocate.v4.b32",
        "ld.relaxed.gpu.global.b32",
        "ld.volatile.global.b32",
        "ld.acquire.cta.global.b32",
    ):
        regs = "{%r30,%r31,%r32,%r33}" if "v4" in op else "%r30"
        zero = "mov.b32 %r31, 1; mov.b32 %r32, 2; mov.b32 %r33, 3;"
        out.append(Program(f"{SPREAD} {zero} {op} {regs}, [%d61]; {MIX} // {op}", "b32", ("b32",)))
    params = {
        "b8": "%r30",
        "b16": "%r30",
        "b32": "%r30",
        "u32": "%r30",
        "v2.b8": "{%h30,%h31}",
        "v2.b32": "{%r30,%r31}",
        "v4.b32": "{%r30,%r31,%r32,%r33}",
    }
    for kind, regs in params.items():
        zero = "".join(f"mov.b32 %r3{i}, {i};" for i in range(4))
        take = "cvt.u32.u16 %r30, %h30; cvt.u32.u16 %r31, %h31;" if "h" in regs else ""
        reg = "%h30" if kind == "b16" else regs
        take = "cvt.u32.u16 %r30, %h30;" if kind == "b16" else take
        out.append(
            Program(f"{zero} ld.param.{kind} {reg}, [block+16]; {take} {MIX} // ld.param.{kind}", "b32", ("b32",))
        )
    out.append(Program("ld.param.b64 {d}, [block+8]; // ld.param.b64", "b64", ("b32",)))
    out.append(
        Program(
            "mov.u64 %d30, block; cvta.param.u64 %d30, %d30; ld.b32 {d}, [%d30+12]; // cvta.param.u64 and a generic"
            " load",
            "b32",
            ("b32",),
        )
    )
    out.append(
        Program(
            SHARED + "st.shared.b32 [%r61], {0}; cvt.u64.u32 %d30, %r61; cvta.shared.u64 %d30, %d30; cvta.to.shared.u64"
            " %d31, %d30; cvt.u32.u64 %r63, %d31; isspacep.shared %p1, %d30; isspacep.global %p2, %d30;"
            " ld.shared.b32 {d}, [%r63]; @%p1 add.u32 {d}, {d}, 1; @%p2 add.u32 {d}, {d}, 64; // cvta.to.shared.u64"
            " and isspacep",
            "b32",
            ("b32",),
        )
    )
    return out


def _stores() -> list[Program]:
    out = []
    for space, at in {
        "global": "[{p0}]",
        "": "[{p0}]",
        "shared": "[%r61]",
        "shared::cta": "[%r61]",
        "local": "[loc]",
    }.items():
        dot = f".{space}" if space else ""
        first = (
            f"{SHARED} st.shared.v4.b32 [%r61], {{%r60,%r60,%r60,%r60}}; st.local.v4.b32 [loc],"
            " {%r60,%r60,%r60,%r60};"
        )
        back = "mov.b64 {d}, {0};" if space in ("global", "") else f"ld{dot}.b64 {{d}}, {at};"
        for kind in ("b8", "u8", "b16", "b32", "f32", "b64", "v2.b8", "v2.b16", "v4.b16", "v2.b32"):
            bits = int(kind.split(".")[-1][1:])
            r = {8: "%h3", 16: "%h3", 32: "%r3", 64: "%d3"}[bits]
            n = int(kind[1]) if kind[0] == "v" else 1
            fetch = (
                "mov.b64 {%h30,%h31,%h32,%h33}, {1};"
                if bits < 32
                else "mov.b64 {%r30,%r31}, {1};"
                if bits == 32
                else "mov.b64 %d30, {1};"
            )
            regs = f"{r}0" if n == 1 else "{" + ", ".join(f"{r}{i}" for i in range(n)) + "}"
            out.append(
                Program(f"{first} {fetch} st{dot}.{kind} {at}, {regs}; {back} // st{dot}.{kind}", "b64", ("b64", "b64"))
            )
        if "shared" in space or space == "local":
            wide = (
                f"{first} ld.global.b64 %d31, [{{b1}}+1040]; st{dot}.v2.b64 {at}, {{{{1}},%d31}}; ld{dot}.b64 {{d}},"
                f" {at.replace(']', '+8]')}; // st{dot}.v2.b64"
            )
            out.append(Program(wide, "b64", ("b64", "b64")))
            four = (
                f"{first} mov.b64 {{%r30,%r31}}, {{1}}; st{dot}.v4.b32 {at}, {{%r31,%r60,%r30,%r31}}; ld{dot}.v2.b64"
                f" {{%d30,%d31}}, {at}; {MIX64} // st{dot}.v4.b32"
            )
            out.append(Program(four, "b64", ("b64", "b64")))
    half = "mad.wide.u32 %d61, %r60, 16, {b0}; setp.lt.u32 %p1, %r60, 256; bar.sync 0; mov.b64 {d}, {1}; @!%p1 bra E; "
    for op, regs in {
        "st.global.v4.b32": "{%r30,%r31,%r60,%r31}",
        "st.global.v2.b64": "{{1},{0}}",
        "st.global.L1::no_allocate.v4.b32": "{%r30,%r31,%r60,%r31}",
        "st.global.L1::no_allocate.v2.b64": "{{1},{0}}",
        "st.v4.f32": "{%r30,%r31,%r60,%r31}",
        "st.relaxed.gpu.global.b32": "%r30",
        "st.release.gpu.global.b64": "{1}",
        "st.global.L1::no_allocate.b16": "%h30",
        "st.volatile.global.b32": "%r31",
    }.items():
        fetch = "mov.b64 {%r30,%r31}, {1}; mov.b32 {%h30,%h31}, %r30; "
        out.append(Program(f"{half} {fetch} {op} [%d61], {regs}; E: // {op}", "b64", ("b64", "b64")))
    return out


def _atomics() -> list[Program]:
    """A cell per thread, so that what is returned does not hang on the order.

    `red` on 16 cells, integers only.
    """
    out = []
    ops = {
        "b32": (
            "and.b32 or.b32 xor.b32 exch.b32 add.u32 add.s32 min.u32 min.s32 max.u32 max.s32 inc.u32 dec.u32 cas.b32"
        ),
        "f32": "add.f32",
        "b64": "and.b64 or.b64 xor.b64 exch.b64 add.u64 min.u64 min.s64 max.u64 max.s64 cas.b64",
        "f64": "add.f64",
        "f16x2": "add.noftz.f16x2",
        "bf16x2": "add.noftz.bf16x2",
        "f16": "add.noftz.f16",
        "bf16": "add.noftz.bf16",
        "b16": "cas.b16",
    }
    width = {"b16": 2, "f16": 2, "bf16": 2, "b32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4}
    for kind, names in ops.items():
        reg = {2: "h", 4: "r", 8: "d"}[width.get(kind, 8)]
        for name in names.split():
            second = ", {0}" if "cas" in name else ""  # compare with a value that sometimes is there
            compare = "{0}" if "cas" in name else "{1}"
            if "cas" in name:
                odd = f"setp.gt.u32 %p1, %r60, 300; selp.b{width.get(kind, 8) * 8} %{reg}35, {{1}}, {{0}}, %p1;"
                compare, second = f"%{reg}35", ", {1}"
            else:
                odd = ""
            bits = 8 * width.get(kind, 8)
            for space in ("global", "shared", ""):
                at = {"global": "[{p0}]", "": "[{p0}]", "shared": "[%r61]"}[space]
                before = f"{SHARED} st.shared.b{bits} [%r61], {{0}};" if space == "shared" else ""
                dot = f".{space}" if space else ""
                after = f"ld.shared.b{bits} %{reg}30, [%r61]; st.global.b{bits} [{{p0}}], %{reg}30;" if before else ""
                full = f"atom{dot}.{name}"
                out.append(
                    Program(
                        f"{before} {odd} {full} {{d}}, {at}, {compare}{second}; {after} // {full}", kind, (kind, kind)
                    )
                )
    cell = (
        "and.b32 %r30, %r60, 15; mad.lo.u32 %r30, %r30, 4, %r62; mul.wide.u32 %d61, %r60, 4; and.b64 %d61, %d61, 60;"
        " add.u64 %d61, %d61, {b0};"
    )
    for name in ["and.b32", "or.b32", "xor.b32", "add.u32", "min.s32", "max.s32", "min.u32", "max.u32"]:
        shared = (
            f"mov.u32 %r62, sm; {cell} setp.lt.u32 %p1, %r60, 16; @%p1 st.shared.b32 [%r30], 77; bar.sync 0;"
            f" red.shared.{name} [%r30], {{1}}; bar.sync 0; ld.shared.b32 {{d}}, [%r30]; // red.shared.{name}"
        )
        out.append(Program(shared, "b32", ("b32", "b32")))
        out.append(
            Program(
                f"mov.u32 %r62, sm; {cell} red.global.{name} [%d61], {{1}}; mov.b32 {{d}}, {{1}}; // red.global.{name}",
                "b32",
                ("b32", "b32"),
            )
        )
    out.append(
        Program(
            f"mov.u32 %r62, sm; {cell} setp.lt.u32 %p1, %r60, 16; @%p1 st.shared.b32 [%r30], 7; bar.sync 0;"
            " atom.shared.cta.max.u32 %r31, [%r30], {1}; bar.sync 0; ld.shared.b32 {d}, [%r30]; //"
            " atom.shared.cta.max.u32",
            "b32",
            ("b32", "b32"),
        )
    )
    out.append(
        Program(
            "red.relaxed.gpu.global.add.f32 [{p0}], {1}; mov.b32 {d}, {1}; // red.relaxed.gpu.global.add.f32",
            "f32",
            ("f32", "f32"),
        )
    )
    vector = (
        "mad.wide.u32 %d61, %r60, 8, {b0}; setp.lt.u32 %p1, %r60, 256; mov.b32 {d}, {1}; @!%p1 bra E;"
        " red.global.v2.f32.add [%d61], {{1},{1}}; E: // red.global.v2.f32.add"
    )
    return [*out, Program(vector, "f32", ("f32", "f32"))]


PROGRAMS = [*_loads(), *_stores(), *_atomics()]
