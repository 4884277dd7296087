"""A warm interpreter that makes one throw-away child per program. Trusted, one thread, no secrets.

It never sees code, inputs or expected values: its memory is inherited by every later child. Requests come
over a packet socket on descriptor 0, each with the descriptors that the child shall read from and write to:

    {"spawn": mode}  + descriptors     ->  {"pid": n} or {"fault": text}
    {"end": pid}                       ->  {"ended": pid, "status": ..., "cpu_s": ..., "rss_kb": ...}
    {"stranger": 0}                    ->  {"pid": n}: an idle, unconfined process, a target for the self-test
"""

from __future__ import annotations

import _socket  # the bare type: the module around it costs every fork
import fcntl
import gc
import importlib
import json
import os
import signal
import struct
import sys
import time
from typing import Any

from gagar_core.sandbox import kernel
from gagar_core.sandbox.child import MODES, Runners, run_child
from gagar_core.sandbox.confinement import CONFINEMENTS, Confinement, Limits

REQUESTS, ANSWERS, ARCHIVE = 3, 4, 5
"""Where a child finds its pipe ends, and the packed tree of a repository task."""
_MESSAGE_BYTES = 4096


def main(arguments: list[str]) -> None:
    """Serve until the broker closes its end. The first argument holds ``Limits`` and imports as JSON."""
    told = json.loads(arguments[0])
    broker = _socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, ARCHIVE + 1))
    _settle_descriptors()
    sys.path += told.pop("paths")
    for name in told.pop("imports"):
        importlib.import_module(name)
    tied = told.pop("tied")
    limits = Limits(told)
    confinement: Confinement = CONFINEMENTS[limits.level](limits)
    try:
        confinement.enter()
    except OSError as fault:
        _send(broker, {"fault": f"{fault.strerror or fault}"})
        return
    if tied:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user id, which clears it
    _send(broker, {"ready": limits.level, "scratch": confinement.scratch, "uid": os.geteuid()})
    gc.collect()
    gc.freeze()  # collections in children must not touch, and so copy, these pages
    _serve(broker, confinement, Runners(limits))


def _settle_descriptors() -> None:
    """Standard streams go nowhere, and 3 and 4 are taken, so that nothing else ever lands there."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, REQUESTS, ANSWERS, ARCHIVE):
        os.dup2(nowhere, descriptor)


def _send(broker: _socket.socket, message: dict[str, Any]) -> None:
    broker.send(json.dumps(message).encode())


def _receive(broker: _socket.socket) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it."""
    data, ancillary, _, _ = broker.recvmsg(_MESSAGE_BYTES, _socket.CMSG_SPACE(12))
    descriptors: list[int] = []
    for level, kind, payload in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            descriptors += struct.unpack(f"={len(payload) // 4}i", payload)
    return data, descriptors


def _serve(broker: _socket.socket, confinement: Confinement, runners: Runners) -> None:
    while True:
        try:
            data, descriptors = _receive(broker)
        except ConnectionResetError:
            return
        if not data:
            return
        message = json.loads(data)
        if "spawn" in message:
            answer = _spawn(broker, confinement, runners, message["spawn"], descriptors)
        elif "end" in message:
            answer = _end(confinement, message["end"])
        else:
            answer = {"pid": _stranger()}
        for descriptor in descriptors:
            os.close(descriptor)
        _send(broker, answer)


def _spawn(
    broker: _socket.socket, confinement: Confinement, runners: Runners, mode: str, descriptors: list[int]
) -> dict[str, Any]:
    if mode not in MODES or len(descriptors) != 2 + (mode == "repository"):
        return {"fault": f"unknown mode {mode!r}"}
    try:
        pid = confinement.fork()
    except OSError as fault:
        return {"fault": f"cannot start a child: {fault.strerror or fault}"}
    if pid:
        return {"pid": pid}
    try:
        for descriptor, place in zip(descriptors, (REQUESTS, ANSWERS, ARCHIVE), strict=False):
            os.dup2(descriptor, place)
        for descriptor in (*descriptors, broker.detach()):
            os.close(descriptor)
        run_child(confinement.seal, runners, mode, (REQUESTS, ANSWERS, ARCHIVE))
    finally:
        os._exit(1)


def _end(confinement: Confinement, pid: int) -> dict[str, Any]:
    """Kill the child through its unreaped pid, and wait until its whole namespace is empty."""
    try:
        os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
    except OSError as fault:
        return {"ended": pid, "status": -1, "cpu_s": 0.0, "rss_kb": 0, "fault": str(fault)}
    fault_text = ""
    try:
        confinement.clean(pid)
    except OSError as fault:
        fault_text = f"clean-up failed: {fault.strerror or fault}"
    cpu_s = usage.ru_utime + usage.ru_stime
    return {"ended": pid, "status": status, "cpu_s": cpu_s, "rss_kb": usage.ru_maxrss, "fault": fault_text}


def _stranger() -> int:
    pid = os.fork()
    if pid == 0:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        while True:
            time.sleep(3600)
    return pid
