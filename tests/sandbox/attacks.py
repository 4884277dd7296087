"""Hostile programs, and for each a control that shows that it bites where there is no wall.

Every program answers the task "``solve(a, b)`` returns a + b". ``@OUT@`` stands for a folder outside the workspace,
with a file ``victim/own`` in it; ``@STRANGER@`` for the pid of somebody else's process; ``@TAG@`` for a name of this
run's own, ``@PORT@`` for an open TCP port, ``@REPO@`` for the checkout.

``right``: ``Z`` no test may pass; ``S`` honest answers may count, but the side effect must not happen; ``A`` either,
as long as nothing outside is harmed.

``bites`` names the control, run without the wall:

- ``answers``: the program returns a + b only if its attack succeeded, and it does;
- ``hangs``: a harness without a time limit waits for ever;
- ``ends``: the process that runs the tests is gone, tests and all;
- ``side``: something outside was changed, or a process was left behind;
- ``memory``, ``flood``, ``big``, ``files``: it takes more memory, prints more, answers more or leaves more files than
  it may;
- ``exit``, ``equal``, ``unittest``, ``log``: a harness that trusts the exit status, an ``==`` or ``unittest`` in the
  candidate's process, or the printed log, counts a wrong program as right;
- ``frame``: a reader that trusts the candidate's pipe is led astray.
"""

from __future__ import annotations

from dataclasses import dataclass

HONEST = "def solve(a, b): return a + b\n"
WRONG = "def solve(a, b): return -1\n"
IF_HIT = "def solve(a, b): return a + b if n else -1\n"


@dataclass(frozen=True)
class Attack:
    id: str
    source: str
    right: str
    bites: str
    statuses: tuple[str, ...] = ()
    """Where the kind of failure is certain: the only statuses allowed."""


def tries(*lines: str) -> str:
    """Each line counts as a success of the attack unless it raises."""
    body = "".join(f"try:\n    {line}\n    n += 1\nexcept Exception: pass\n" for line in lines)
    return f"import os\nn = 0\n{body}{IF_HIT}"


RESOURCES = [
    Attack("loop", "while True: pass", "Z", "hangs", ("timeout",)),
    Attack(
        "loop_in_call",
        "def solve(a, b):\n    while a < 5: pass\n    while 1: pass",
        "Z",
        "hangs",
        ("timeout",),
    ),
    Attack("loop_without_fuel", "exec('while True: pass')", "Z", "hangs", ("timeout",)),
    Attack("sleep", "import time; time.sleep(10**6)", "Z", "hangs", ("timeout",)),
    Attack(
        "forkbomb",
        "import os, time\nmade = 0\nwhile made < 60:\n    try:\n        if os.fork() == 0: time.sleep(20); os._exit(0)\n"
        "        made += 1\n    except OSError: pass\nos.kill(os.getpid(), 9)",
        "Z",
        "side",
    ),
    Attack("membomb", "x = []\nwhile True: x.append(bytearray(10**7))", "Z", "memory", ("memory",)),
    Attack("flood", "while True: print('A' * 10**6)", "Z", "flood", ("output",)),
    Attack(
        "flood_descriptor", "import os\nwhile True: os.write(1, b'A' * 10**6)", "Z", "flood", ("timeout",)
    ),
    Attack(
        "recursion",
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(s): return repr([s])\n"
        "def solve(a, b): return len(repr(A()))",
        "Z",
        "ends",
    ),
    Attack("segv", "import ctypes\ndef solve(a, b): return ctypes.string_at(8)", "Z", "ends", ("error",)),
    Attack(
        "c_block",
        "import re\ndef solve(a, b): re.match('(a*)*$', 'a' * 40 + 'b'); return a + b",
        "Z",
        "hangs",
        ("timeout",),
    ),
    Attack("bigret", "def solve(a, b): return ''.join(['A' * (1 << 20)] * 100)", "Z", "big", ("output",)),
    Attack(
        "bigret_uncounted",
        "def solve(a, b): return eval('\"A\" * (100 << 20)')",
        "Z",
        "big",
        ("output",),
    ),
    Attack(
        "diskfill",
        "import os\nf = os.open('@OUT@/big', 66)\nfor i in range(20): os.write(f, b'x' * (1 << 20))\n"
        + HONEST,
        "Z",
        "files",
    ),
    Attack(
        "diskfill_workspace",
        "for i in range(10**6):\n    open(f'f{i}', 'wb').write(b'x' * (1 << 19))",
        "Z",
        "hangs",
    ),
    Attack(
        "threads",
        "import threading, time\ntry:\n    for i in range(300):\n"
        "        threading.Thread(target=time.sleep, args=(10**6,)).start()\n"
        "except Exception: pass\n" + HONEST,
        "S",
        "hangs",
    ),
    Attack(
        "ignore_sig",
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except Exception: pass\n"
        "exec('while True: pass')",
        "Z",
        "hangs",
        ("timeout",),
    ),
    Attack(
        "deepdirs",
        "import os\ntry:\n    for i in range(1500): os.mkdir('d'); os.chdir('d')\n    os.chmod('.', 0)\n"
        "except OSError: pass\n" + HONEST,
        "S",
        "files",
    ),
    Attack("stdin", "def solve(a, b): return int(input())", "Z", "hangs", ("error",)),
    Attack(
        "atexit_thread",
        "import atexit, threading, time\natexit.register(lambda: time.sleep(100))\n"
        "threading.Thread(target=lambda: time.sleep(100)).start()\n" + HONEST,
        "S",
        "hangs",
    ),
    Attack(
        "chmod000",
        "import os\nos.makedirs('a/b/c'); open('a/b/c/f', 'w')\nos.chmod('a/b', 0); os.chmod('a', 0)\n"
        + HONEST,
        "S",
        "files",
    ),
]

CHEATS = [
    Attack("exit0", "import os; os._exit(0)", "Z", "exit", ("error",)),
    Attack("sysexit", "import sys\ndef solve(a, b): sys.exit(0)", "Z", "exit", ("error",)),
    Attack(
        "alwayseq",
        "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\ndef solve(a, b): return E()",
        "Z",
        "equal",
        ("error",),
    ),
    Attack(
        "int_subclass",
        "class I(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\ndef solve(a, b): return I(7)",
        "Z",
        "equal",
        ("error",),
    ),
    Attack(
        "patch_builtins",
        "import builtins\nbuiltins.all = lambda *k: True\nbuiltins.isinstance = lambda *k: True\n"
        "builtins.type = lambda *k: int\nbuiltins.len = lambda *k: 1\n" + WRONG,
        "Z",
        "equal",
    ),
    Attack(
        "patch_json",
        "import json, sys\njson.dumps = lambda *a, **k: '{\"passed\":true}'\njson.loads = lambda *a, **k: {}\n"
        + WRONG,
        "Z",
        "frame",
    ),
    Attack(
        "patch_unittest",
        "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'):\n"
        "        setattr(unittest.TestCase, name, lambda *a, **k: None)\n" + WRONG,
        "Z",
        "unittest",
    ),
    Attack(
        "skip",
        "import unittest\ndef solve(a, b): raise unittest.SkipTest('skip')",
        "Z",
        "unittest",
        ("error",),
    ),
    Attack(
        "fd_spray",
        'import os, struct\nfor fd in range(0, 64):\n    m = b\'{"passed":true,"ok":true}\'\n'
        "    try: os.write(fd, struct.pack('>I', len(m)) + m)\n    except OSError: pass\n" + WRONG,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "early_answers",
        "import os, struct, json\nfor i in range(10):\n"
        "    m = json.dumps(['0' * 16, ['ok', 4 * i, '']]).encode(); os.write(4, struct.pack('>I', len(m)) + m)\n"
        + WRONG,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "late_answers",
        "import os, struct, threading, time\ndef later():\n    m = b'{\"passed\":true}'\n    while True:\n"
        "        time.sleep(.001); os.write(4, struct.pack('>I', len(m)) + m)\n"
        "threading.Thread(target=later, daemon=True).start()\ntime.sleep(.05)\n" + WRONG,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "deepjson",
        "import os, struct\nb = b'[' * 90000\nos.write(4, struct.pack('>I', len(b)) + b)\n" + HONEST,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "hugeint_frame",
        "import os, struct\nb = b'{\"k\":' + b'9' * 90000 + b'}'\nos.write(4, struct.pack('>I', len(b)) + b)\n"
        + HONEST,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "endless_frame",
        "import os, struct\nos.write(4, struct.pack('>I', 0xffffffff) + b'x' * 60000)\n" + HONEST,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "claims_infra",
        "import sys\nf = sys._getframe()\nwhile f and 'request' not in f.f_locals: f = f.f_back\n"
        "if f:\n    import os, struct, json\n    m = json.dumps([f.f_locals['request'][0], ['infra', None, '']]).encode()\n"
        "    os.write(4, struct.pack('>I', len(m)) + m)\n" + HONEST,
        "Z",
        "frame",
        ("violation",),
    ),
    Attack(
        "print_markers",
        "print('===== 10 passed in 0.01s =====\\nPASSED test_x\\n>>>>> All Tests Passed\\nOK\\n{\"reward\": 1.0}')\n"
        + WRONG,
        "Z",
        "log",
    ),
    Attack(
        "frames_expected",
        "import sys, gc\nf = sys._getframe(); E = None\nwhile f and E is None:\n"
        "    E = next((v for k, v in f.f_locals.items() if 'exp' in k or k == 'tests'), None); f = f.f_back\n"
        "if E is None:\n    E = next((o for o in gc.get_objects() if isinstance(o, dict) and 'expected' in o), {}).get('expected')\n"
        "E = iter(E or [])\ndef solve(a, b): return next(E)",
        "Z",
        "equal",
    ),
]

REACHING_OUT = [
    Attack(
        "env",
        "import os\nn = [k for k in os.environ if 'SECRET' in k or 'TOKEN' in k]\n"
        "try: n += [k for k in open('/proc/%d/environ' % os.getppid()).read().split('\\0') if 'SECRET' in k]\n"
        "except OSError: pass\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "disk_tests",
        "import os\nn = []\nfor d in ('@OUT@', '/root', '/home', '/dev/shm', '/etc/passwd', '@REPO@'):\n"
        "    try: n += os.listdir(d) if os.path.isdir(d) else [open(d).read()]\n    except OSError: pass\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "heap_scan",
        "try: n = open('/proc/self/maps').read()\nexcept OSError: n = ''\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "kill_parent",
        "import os\nfor p in (@STRANGER@, os.getppid()):\n    try: os.kill(p, 9)\n    except OSError: pass\n"
        + HONEST,
        "A",
        "side",
    ),
    Attack(
        "kill_group",
        "import os\ntry: os.kill(0, 15)\nexcept OSError: pass\n" + HONEST,
        "A",
        "ends",
    ),
    Attack(
        "daemon",
        "import os, time\ntry:\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            time.sleep(.3); open('@OUT@/PWNED', 'w'); time.sleep(20)\n        os._exit(0)\n"
        "except OSError: pass\n" + HONEST,
        "S",
        "side",
    ),
    Attack(
        "write_outside",
        "n = 0\nfor p in ('@OUT@/PWNED', '/dev/shm/@TAG@', '/var/tmp/@TAG@', '/usr/lib/@TAG@', '/@TAG@', '/etc/@TAG@'):\n"
        "    try: open(p, 'w').write('x'); n += 1\n    except OSError: pass\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "symlink",
        "import os\nfor i, t in enumerate(('@OUT@/victim', '/root', '/')):\n"
        "    try: os.symlink(t, f'l{i}'); os.listdir(f'l{i}'); open(f'l{i}/@TAG@', 'w')\n    except OSError: pass\n"
        + HONEST,
        "S",
        "side",
    ),
    Attack(
        "poison_site",
        "import os, sys\nn = 0\nfor d in ['@OUT@', os.path.dirname(os.__file__)] + sys.path:\n"
        "    for f in ('sitecustomize_@TAG@.py', '@TAG@.pth', 'conftest_@TAG@.py'):\n"
        "        try: open(os.path.join(d, f), 'a').write('import os\\n'); n += 1\n        except OSError: pass\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "network",
        "import socket\nn = 0\nfor f, t, ad in ((2, 1, ('127.0.0.1', @PORT@)), (2, 2, ('127.0.0.1', 53)), (1, 1, '\\0@TAG@')):\n"
        "    try:\n        s = socket.socket(f, t); s.settimeout(.2); s.connect(ad); n += 1\n    except OSError: pass\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "sysvshm",
        "import ctypes\nl = ctypes.CDLL(None)\nr = l.shmget(0, 4096, 0o1666)\nif r >= 0: l.shmctl(r, 0, None)\n"
        "n = r >= 0\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "meta_outside",
        tries(
            "os.chmod('@OUT@/victim/own', 0o600)",
            "os.utime('@OUT@/victim/own', (0, 0))",
            "os.setxattr('@OUT@/victim/own', 'user.a', b'1')",
            "os.truncate('@OUT@/victim/own', 0)",
            "os.close(os.open('@OUT@/victim/own', os.O_RDONLY | os.O_TRUNC))",
            "os.chown('@OUT@/victim/own', os.getuid(), os.getgid())",
        ),
        "Z",
        "answers",
    ),
    Attack(
        "rename_outside",
        tries(
            "os.rename('@OUT@/victim/own', '@OUT@/victim/taken')",
            "os.link('@OUT@/victim/own', 'mine')",
            "os.unlink('@OUT@/victim/own')",
            "os.mkdir('@OUT@/new')",
            "os.symlink('/', '@OUT@/link')",
        ),
        "Z",
        "answers",
    ),
    Attack(
        "dotdot",
        tries(
            "open('../' * 30 + '@OUT@/victim/own').read()", "open(os.path.relpath('@OUT@/victim/own')).read()"
        ),
        "Z",
        "answers",
    ),
]

KERNEL = [
    Attack(
        "ptrace",
        "import ctypes, os\nl = ctypes.CDLL(None)\nl.ptrace.argtypes = [ctypes.c_long] * 4\n"
        "n = l.ptrace(16, @STRANGER@, 0, 0) == 0\nif n: os.waitpid(@STRANGER@, 0x40000000); l.ptrace(17, @STRANGER@, 0, 0)\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "read_memory",
        "import ctypes\nl = ctypes.CDLL(None)\nb = (ctypes.c_char * 8)()\n"
        "iov = (ctypes.c_void_p * 2)(ctypes.addressof(b), 8)\n"
        "far = (ctypes.c_void_p * 2)(next(int(x.split('-')[0], 16) for x in open('/proc/@STRANGER@/maps')), 8)\n"
        "n = l.process_vm_readv(@STRANGER@, iov, 1, far, 1, 0) == 8\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack("proc_stranger", "n = len(open('/proc/@STRANGER@/environ').read())\n" + IF_HIT, "Z", "answers"),
    Attack(
        "stranger_limits",
        tries(
            "import resource; resource.prlimit(@STRANGER@, resource.RLIMIT_NOFILE, (5, 5))",
            "os.sched_setaffinity(@STRANGER@, {0})",
            "os.setpriority(os.PRIO_PROCESS, @STRANGER@, 19)",
        ),
        "Z",
        "answers",
    ),
    Attack(
        "pidfd",
        tries("import signal; signal.pidfd_send_signal(os.pidfd_open(@STRANGER@), 0)"),
        "Z",
        "answers",
    ),
    Attack(
        "signal_owner",
        "import fcntl, os, signal, time\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, @STRANGER@)\n"
        "fcntl.fcntl(r, 10, 9)\nfcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\nos.write(w, b'x')\n"
        + HONEST,
        "A",
        "side",
    ),
    Attack(
        "new_namespaces",
        "import ctypes\nl = ctypes.CDLL(None)\nn = l.unshare(0x10000000) == 0\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack("exec", tries("import subprocess; subprocess.run(['/bin/true'], check=True)"), "Z", "answers"),
    Attack(
        "io_uring",
        "import ctypes\nl = ctypes.CDLL(None)\np = (ctypes.c_char * 256)()\nn = l.syscall(425, 4, p) >= 0\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "inotify",
        "import ctypes\nl = ctypes.CDLL(None)\nf = l.inotify_init1(0)\nn = l.inotify_add_watch(f, b'@OUT@/victim', 0xfff) >= 0\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "outlive",
        "import ctypes\nl = ctypes.CDLL(None)\nn = l.prctl(1, 0, 0, 0, 0) == 0\n" + IF_HIT,
        "Z",
        "answers",
    ),
    Attack(
        "keyring",
        "import ctypes\nl = ctypes.CDLL(None)\nn = l.syscall(248, b'user', b'@TAG@', b'x', 1, -3) > 0\n"
        + IF_HIT,
        "Z",
        "answers",
    ),
]

ATTACKS = [*RESOURCES, *CHEATS, *REACHING_OUT, *KERNEL]
