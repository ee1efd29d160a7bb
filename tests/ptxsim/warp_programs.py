"""Generated PTX of copies, warps and control flow.

Cp.async, bulk copies, mbarriers, matrix loads and stores, shuffles, votes, barriers, divergence. Same form as
programs.py.
"""

from __future__ import annotations

from access_programs import FILL, MIX, SHARED, SPREAD
from programs import Program


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


PROGRAMS = [*_copies(), *_warps(), *_control()]
