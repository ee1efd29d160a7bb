"""Generated PTX of memory, warps and control flow: loads and stores of every width and space, atomics, copies of single
threads, matrix loads and stores, shuffles, votes, barriers, divergence. Same form as programs.py."""

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
    """A cell per thread, so that what is returned does not hang on the order; `red` on 16 cells, integers only."""
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


def _copies() -> list[Program]:
    out = []
    wait = "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; "
    for op, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        for source in ("", ", %r40"):
            body = (
                f"{SHARED} st.shared.v4.b32 [%r61], {{%r60,%r60,%r60,%r60}}; {SPREAD} rem.u32 %r40, %r60, {size + 1};"
                f" cp.async.{op}.shared.global [%r61], [%d61], {size}{source}; {wait}"
            )
            out.append(
                Program(
                    f"{body} ld.shared.v4.b32 {{%r30,%r31,%r32,%r33}}, [%r61]; {MIX} // cp.async.{op}.shared.global"
                    f" of {size} bytes{' in part' * bool(source)}",
                    "b32",
                    ("b32",),
                )
            )
    two = (
        f"{SHARED} {SPREAD} cp.async.ca.shared.global [%r61], [%d61], 8; cp.async.commit_group;"
        " cp.async.ca.shared.global [%r61+8], [%d61+8], 8; cp.async.commit_group; cp.async.wait_group 1;"
        f" ld.shared.v2.b32 {{%r30,%r31}}, [%r61]; cp.async.wait_all; ld.shared.v2.b32 {{%r32,%r33}}, [%r61+8]; {MIX}"
        " // cp.async.wait_group 1 and wait_all"
    )
    out.append(Program(two, "b32", ("b32",)))
    for noinc, count in ((".noinc", 512), ("", 1)):
        own = "setp.eq.u32 %p2, %r60, 0; @%p2 mbarrier.arrive.shared.b64 _, [%r63]; " if not noinc else ""
        body = (
            f"{SHARED} add.u32 %r63, %r62, 8192; setp.eq.u32 %p1, %r60, 0; @%p1 mbarrier.init.shared.b64 [%r63],"
            f" {count}; bar.sync 0; {SPREAD} cp.async.ca.shared.global [%r61], [%d61], 16;"
            f" cp.async.mbarrier.arrive{noinc}.shared.b64 [%r63]; bar.sync 0; {own} L:"
            " mbarrier.try_wait.parity.shared.b64 %p3, [%r63], 0; @!%p3 bra L; xor.b32 %r64, %r60, 5; mad.lo.u32"
            f" %r64, %r64, 16, %r62; ld.shared.v4.b32 {{%r30,%r31,%r32,%r33}}, [%r64]; {MIX} //"
            f" cp.async.mbarrier.arrive{noinc}.shared.b64".replace("8192", "16000")
        )
        out.append(Program(body, "b32", ("b32",)))
    for x in (1, 2, 4):
        regs = ",".join(f"%r4{i}" for i in range(x))
        clear = "".join(f"mov.b32 %r{n}, {n};" for n in (30, 31, 32, 33))
        move = "".join(f"mov.b32 %r3{i}, %r4{i};" for i in range(x))
        for trans in ("", ".trans"):
            load = f"ldmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16"
            out.append(Program(f"{FILL} {clear} {load} {{{regs}}}, [%r61]; {move} {MIX} // {load}", "b32", ("b32",)))
            store = f"stmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16"
            regs30 = ",".join(f"%r3{i}" for i in range(x))
            out.append(
                Program(
                    f"{FILL} mov.b32 %r34, {{0}}; xor.b32 %r30, %r30, %r34; bar.sync 0; {store} [%r61], {{{regs30}}};"
                    f" bar.sync 0; ld.shared.v4.b32 {{%r30,%r31,%r32,%r33}}, [%r61]; {MIX} // {store}",
                    "b32",
                    ("b32",),
                )
            )
    bulk = (
        f"{SHARED} add.u32 %r63, %r62, 16000; setp.ne.u32 %p1, %r60, 0; @%p1 bra A; mbarrier.init.shared.b64 [%r63],"
        " 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r63], 2048;"
        " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r62], [{b0}], 2048, [%r63]; A:"
        " bar.sync 0; L: mbarrier.try_wait.parity.shared.b64 %p3, [%r63], 0; @!%p3 bra L; mad.lo.u32 %r64, %r60, 4,"
        " %r62; ld.shared.b32 {d}, [%r64]; "
    )
    out.append(
        Program(f"{bulk} // cp.async.bulk.shared::cluster.global and mbarrier.arrive.expect_tx", "b32", ("b32",))
    )
    back = (
        "bar.sync 0; fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra B;"
        " cp.async.bulk.global.shared::cta.bulk_group [{b0}], [%r62], 1024;"
        " cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [{b0}+1024], [%r62], 1024;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; B: bar.sync 0; "
    )
    out.append(
        Program(
            f"{bulk} st.shared.b32 [%r64], %r60; {back} // cp.async.bulk.global.shared::cta and"
            " cp.reduce.async.bulk add",
            "b32",
            ("b32",),
        )
    )
    state = (
        f"{SHARED} add.u32 %r63, %r62, 16000; setp.eq.u32 %p1, %r60, 0; @%p1 mbarrier.init.shared.b64 [%r63], 512;"
        " bar.sync 0; mbarrier.arrive.shared.b64 %d30, [%r63]; L: mbarrier.test_wait.shared.b64 %p3, [%r63], %d30;"
        " @!%p3 bra L; mbarrier.arrive.release.cta.shared::cta.b64 _, [%r63]; M:"
        " mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p3, [%r63], 1; @!%p3 bra M; mov.b32 {d}, {0}; //"
        " mbarrier.arrive with a state, test_wait, try_wait.parity.acquire.cta"
    )
    return [*out, Program(state, "b32", ("b32",))]


def _warps() -> list[Program]:
    out = []
    for mode, b, c in (
        ("up", 3, 0),
        ("up", 2, 0x1800),
        ("down", 5, 31),
        ("down", 3, 0x181F),
        ("bfly", 6, 31),
        ("bfly", 16, 31),
        ("bfly", 1, 0x1C1F),
        ("idx", 7, 31),
        ("idx", 9, 0x181F),
    ):
        out.append(
            Program(
                f"shfl.sync.{mode}.b32 {{d}}|%p1, {{0}}, {b}, {c}, -1; @%p1 add.u32 {{d}}, {{d}}, 1; //"
                f" shfl.sync.{mode}.b32 {b}, {c}",
                "b32",
                ("b32",),
            )
        )
    out.append(
        Program(
            "shfl.sync.idx.b32 {d}, {0}, {1}, 31, -1; // shfl.sync.idx.b32 of each lane's choice",
            "b32",
            ("b32", "small"),
        )
    )
    partial = (
        "and.b32 %r30, %r60, 1; setp.eq.u32 %p1, %r30, 0; mov.b32 {d}, {0}; @!%p1 bra E; shfl.sync.bfly.b32 {d}, {0},"
        " 2, 31, 0x55555555; E: // shfl.sync.bfly.b32 of half a warp"
    )
    out.append(Program(partial, "b32", ("b32",)))
    out += [
        Program(f"or.b32 %r30, {{0}}, 24; redux.sync.{op} {{d}}, %r30, -1; // redux.sync.{op}", "b32", ("b32",))
        for op in ["add.s32", "add.u32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32", "or.b32", "xor.b32"]
    ]
    test = "setp.lt.s32 %p2, {0}, 1000000; setp.lt.u32 %p3, %r60, 256; or.pred %p2, %p2, %p3; "
    out += [
        Program(
            f"{test} vote.sync.{m}.pred %p1, %p2, -1; selp.b32 {{d}}, 1, 0, %p1; // vote.sync.{m}.pred",
            "b32",
            ("b32",),
        )
        for m in ("all", "any", "uni")
    ]
    out.append(
        Program(
            "setp.lt.s32 %p2, {0}, 1000000; vote.sync.ballot.b32 {d}, %p2, -1; // vote.sync.ballot.b32",
            "b32",
            ("b32",),
        )
    )
    out.append(
        Program("and.b32 %r30, {0}, 3; match.any.sync.b32 {d}, %r30, -1; // match.any.sync.b32", "b32", ("b32",))
    )
    out.append(
        Program(
            "elect.sync %r30|%p1, -1; vote.sync.ballot.b32 {d}, %p1, -1; popc.b32 {d}, {d}; shfl.sync.idx.b32 %r31,"
            " {0}, %r30, 31, -1; setp.eq.u32 %p2, %r31, {0}; @%p1 selp.b32 %r32, 1, 0, %p2; @%p1 add.u32 {d}, {d},"
            " %r32; vote.sync.any.pred %p3, %p1, -1; shfl.sync.idx.b32 {d}, {d}, %r30, 31, -1; // elect.sync: one"
            " lane, the named one",
            "b32",
            ("b32",),
        )
    )
    out.append(
        Program(
            "mov.b32 {d}, 0; setp.ge.s32 %p1, {0}, 0; @!%p1 bra E; activemask.b32 {d}; and.b32 {d}, {d}, 0; E:"
            " bar.warp.sync -1; add.u32 {d}, {d}, {0}; // bar.warp.sync after a branch",
            "b32",
            ("b32",),
        )
    )
    exchange = (
        SHARED
        + "mad.lo.u32 %r63, %r60, 4, %r62; st.shared.b32 [%r63], {0}; BAR xor.b32 %r64, %r60, 33; mad.lo.u32 %r64,"
        " %r64, 4, %r62; ld.shared.b32 {d}, [%r64]; "
    )
    for bar in (
        "bar.sync 0;",
        "barrier.sync 1;",
        "bar.sync 3, 512;",
        "barrier.sync.aligned 2, 512;",
        "bar.cta.sync 0;",
        "barrier.cluster.arrive; barrier.cluster.wait;",
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
    ):
        out.append(Program(f"{exchange.replace('BAR', bar)} // {bar}", "b32", ("b32",)))
    arrive = exchange.replace(
        "BAR", "setp.lt.u32 %p1, %r60, 256; @%p1 bra X; bar.sync 2, 512; bra Y; X: bar.arrive 2, 512; Y:"
    ).replace("xor.b32 %r64, %r60, 33;", "sub.u32 %r64, %r60, 256; selp.b32 %r64, %r60, %r64, %p1;")
    out.append(Program(f"{arrive} // bar.arrive and bar.sync", "b32", ("b32",)))
    remote = (
        SHARED
        + "mov.u32 %r40, 0; mapa.shared::cluster.u32 %r41, %r61, %r40; st.shared::cluster.b32 [%r41], {0}; bar.sync"
        " 0; cvt.u64.u32 %d30, %r61; cvta.shared.u64 %d30, %d30; mapa.u64 %d31, %d30, %r40; ld.b32 {d}, [%d31];"
        " getctarank.shared::cluster.u32 %r42, %r41; add.u32 {d}, {d}, %r42; // mapa.shared::cluster.u32, mapa.u64,"
        " getctarank"
    )
    out.append(Program(remote, "b32", ("b32",)))
    return out


def _control() -> list[Program]:
    loop = (
        "mov.u32 {d}, 0; and.b32 %r30, {0}, 15; L: setp.eq.u32 %p1, %r30, 0; @%p1 bra E; add.u32 {d}, {d}, {1};"
        " shf.l.wrap.b32 {d}, {d}, {d}, 3; sub.u32 %r30, %r30, 1; bra.uni L; E: // a loop of a length of each"
        " lane's own".replace("bra.uni", "bra")
    )
    nest = (
        "setp.lt.s32 %p1, {0}, 0; setp.gt.u32 %p2, {1}, 1000; @%p1 bra A; @%p2 bra B; mov.u32 {d}, 1; bra E; B:"
        " mov.u32 {d}, 2; bra E; A: @!%p2 bra C; add.u32 {d}, {0}, 3; bra E; C: xor.b32 {d}, {0}, {1}; E: add.u32"
        " {d}, {d}, %r60; // branches within branches"
    )
    guard = (
        "mov.b32 {d}, {1}; setp.lt.u32 %p1, {0}, {1}; @%p1 add.u32 {d}, {d}, 5; @!%p1 mul.lo.u32 {d}, {d}, 3; @%p1"
        " ld.global.b32 {d}, [{p0}]; // guards"
    )
    early = (
        "mov.b32 {d}, {0}; st.global.b32 [{p1}], {0}; setp.lt.s32 %p1, {0}, 0; @%p1 bra X; mad.lo.u32 {d}, {d}, 3, 1;"
        " bra Y; X: ld.global.b32 %r30, [{p0}]; st.global.b32 [{p1}], 9; Y: // a store in one path"
    )
    special = ["%laneid", "%ctaid.x", "%nctaid.x", "%cluster_ctarank", "%cluster_nctarank", "%lanemask_lt"]
    moves = (
        "mov.b64 {%r30,%r31}, {0}; mov.b32 {%h30,%h31}, %r30; mov.b32 %r32, {%h31,%h30}; mov.b64 {d}, {%r32,%r31};"
        " // mov.b64 and mov.b32 of pairs",
        "mov.b64 {%h30,%h31,%h32,%h33}, {0}; mov.b64 {d}, {%h33,%h31,%h30,%h32}; // mov.b64 of four",
        "mov.b64 %d30, {0}; mov.b128 %q1, {{0},%d30}; mov.b128 {%d31,%d32}, %q1; add.u64 {d}, %d31, %d32; // mov.b128",
        "mov.u32 %r30, %ntid.x; "
        + "".join(f"mov.u32 %r31, {name}; mad.lo.u32 %r30, %r30, 513, %r31; " for name in special)
        + "cvt.u64.u32 {d}, %r30; // special registers",
        "mov.b16 %h30, 7; cvt.u32.u64 %r30, {0}; setp.ne.b16 %p1, %h30, 7; setp.eq.b32 %p2, %r30, 1;"
        " selp.b16 %h31, %h30, 9, %p2; cvt.u64.u16 {d}, %h31; // mov.b16 and selp.b16",
    )
    out = [Program(t, "b32", ("b32", "b32")) for t in (loop, nest, guard, early)]
    return out + [Program(t, "b64", ("b64",)) for t in moves]


PROGRAMS = [*_loads(), *_stores(), *_atomics(), *_copies(), *_warps(), *_control()]
