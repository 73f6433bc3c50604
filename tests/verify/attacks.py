"""Snippets that must do no harm: VICTIM stands for a folder with a file `precious` in it."""

from __future__ import annotations

#: Ordinary training, which the guard rails must let through.
HARMLESS: dict[str, str] = {
    "training": """
        import torch
        from torch import nn
        model = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss = model(torch.randn(4, 3)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "recurrent, scheduled, autocast": """
        import torch
        from torch import nn
        model = nn.LSTM(3, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(torch.randn(5, 2, 3))[0]
        y.sum().backward()
        optimizer.step()
        schedule.step()
        print(torch.linalg.svd(torch.randn(3, 3)))
    """,
    "environment": "import os\nos.environ['A'] = '1'\nassert os.environ['A'] == '1'",
    "compile": "import torch\ntorch.compile(lambda x: x * 2 + 1)(torch.ones(3))",
    "files in its own folder": """
        import os, torch, shutil
        os.makedirs("out/deep", exist_ok=True)
        torch.save(torch.ones(3), "out/deep/model.pt")
        assert torch.load("out/deep/model.pt").sum() == 3
        open("log.txt", "w").write("done")
        os.rename("log.txt", "out/log.txt")
        assert sorted(os.listdir("out")) == ["deep", "log.txt"]
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), "out/m.pt")
        shutil.rmtree("out")
    """,
    "loader with workers": "import torch\nassert len(list(torch.utils.data.DataLoader([torch.ones(1)], num_workers=2))) == 1",
    "temporary files": "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x')",
    "threads": "import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()",
    "metadata of modules": "import argparse, logging, platform\nplatform.system()\nlogging.warning('x')\nargparse.ArgumentParser()",
}

ATTACKS: dict[str, str] = {
    # Files, through Python.
    "open to write": "open('VICTIM/f', 'w').write('x')",
    "open to append": "open('VICTIM/precious', 'a').write('x')",
    "open to truncate": "open('VICTIM/precious', 'w')",
    "open to update": "open('VICTIM/precious', 'r+b').truncate(0)",
    "read a file": "open('/etc/passwd').read()",
    "os.open": "import os\nos.open('VICTIM/f', os.O_CREAT | os.O_WRONLY)",
    "os.remove": "import os\nos.remove('VICTIM/precious')",
    "os.unlink": "import os\nos.unlink('VICTIM/precious')",
    "os.rename": "import os\nos.rename('VICTIM/precious', 'VICTIM/other')",
    "os.replace": "import os\nopen('mine', 'w').close()\nos.replace('mine', 'VICTIM/precious')",
    "os.truncate": "import os\nos.truncate('VICTIM/precious', 0)",
    "os.mkdir": "import os\nos.makedirs('VICTIM/new/deep')",
    "os.link": "import os\nos.link('VICTIM/precious', 'VICTIM/second')",
    "os.symlink": "import os\nos.symlink('/etc', 'VICTIM/link')",
    "os.chmod": "import os\nos.chmod('VICTIM/precious', 0)",
    "os.utime": "import os\nos.utime('VICTIM/precious', (0, 0))",
    "os.mkfifo": "import os\nos.mkfifo('VICTIM/fifo')",
    "os.listdir": "import os\nprint(os.listdir('VICTIM'))",
    "shutil.rmtree": "import shutil\nshutil.rmtree('VICTIM')",
    "shutil.move": "import shutil\nshutil.move('VICTIM/precious', 'stolen')",
    "shutil.copy": "import shutil\nopen('mine', 'w').close()\nshutil.copy('mine', 'VICTIM/precious')",
    "pathlib": "import pathlib\npathlib.Path('VICTIM/precious').write_text('')",
    "relative path": "import os\nopen(os.path.relpath('VICTIM/precious'), 'w')",
    "link out of the folder": "import os\nos.symlink('VICTIM', 'inside')\nopen('inside/precious', 'w')",
    "another folder first": "import os\nos.chdir('VICTIM')\nopen('precious', 'w')",
    "folder's descriptor": "import os\nd = os.open('VICTIM', os.O_RDONLY)\nos.unlink('precious', dir_fd=d)",
    "logging to a file": "import logging\nlogging.basicConfig(filename='VICTIM/log', filemode='w')\nlogging.error('x')",
    "archive": "import zipfile\nzipfile.ZipFile('VICTIM/z', 'w').writestr('a', 'b')",
    "warnings of a file": "import csv, io\ncsv.writer(io.open('VICTIM/t', 'w')).writerow([1])",
    # Files, through numpy and torch.
    "torch.save": "import torch\ntorch.save(torch.ones(3), 'VICTIM/new.pt')",
    "torch.save over a file": "import torch\ntorch.save(torch.ones(3), 'VICTIM/precious')",
    "torch.jit.save": "import torch\ntorch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), 'VICTIM/j.pt')",
    "jit's own save": "import torch\ntorch.jit.script(torch.nn.Linear(1, 1))._c.save('VICTIM/precious')",
    "torch.from_file": "import torch\ntorch.from_file('VICTIM/ff', shared=True, size=10)",
    "storage from a file": "import torch\ntorch.UntypedStorage.from_file('VICTIM/us', True, 100)",
    "storage written to a file": "import torch\ntorch.ones(2).untyped_storage()._write_file('VICTIM/precious', True, True, 1)",
    "zip writer of C++": "import torch\ntorch._C.PyTorchFileWriter('VICTIM/precious').write_end_of_file()",
    "profiler": "import torch\nwith torch.profiler.profile() as p: torch.ones(1) + 1\np.export_chrome_trace('VICTIM/tr.json')",
    "np.save": "import numpy as np\nnp.save('VICTIM/n.npy', np.ones(3))",
    "np.memmap": "import numpy as np\nnp.memmap('VICTIM/mm', mode='w+', shape=3)",
    "tofile": "import numpy as np\nnp.ones(3).tofile('VICTIM/precious')",
    "unpickling": (
        "import torch, pickle\n"
        "open('p', 'wb').write(b\"cposix\\nsystem\\n(S'touch VICTIM/pickled'\\ntR.\")\n"
        "torch.load('p', weights_only=False)"
    ),
    # Processes.
    "os.system": "import os\nos.system('touch VICTIM/os')",
    "os.popen": "import os\nos.popen('touch VICTIM/popen').read()",
    "os.execv": "import os\nos.execv('/bin/touch', ['touch', 'VICTIM/exec'])",
    "os.posix_spawn": "import os\nos.posix_spawn('/bin/touch', ['touch', 'VICTIM/spawn'], {})",
    "os.fork": "import os, time\nif os.fork() == 0: time.sleep(60)",
    "os.kill": "import os\nos.kill(os.getppid(), 9)",
    "subprocess": "import subprocess\nsubprocess.run(['touch', 'VICTIM/sp'])",
    "_posixsubprocess": (
        "import _posixsubprocess, os\nr, w = os.pipe()\n"
        "_posixsubprocess.fork_exec([b'touch', b'VICTIM/px'], [b'/bin/touch'], True, (), None, None, -1, -1, -1, -1, -1, -1,"
        " r, w, False, False, -1, None, None, None, -1, None, False)"
    ),
    "multiprocessing": "import torch.multiprocessing as mp\nmp.Process(target=open, args=('VICTIM/mp', 'w')).start()",
    "torch.os": "import torch\ntorch.os.system('touch VICTIM/to')",
    "sys.modules": "import sys\nsys.modules['os'].system('touch VICTIM/sm')",
    "subclasses": "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'][0](['touch', 'VICTIM/sc'])",
    "getattr": "import os\ngetattr(os, 'sys' + 'tem')('touch VICTIM/ga')",
    "cpp_extension": "from torch.utils.cpp_extension import load_inline\nload_inline('x', 'int f() { return 1; }', functions=['f'])",
    # Networks.
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "server": "import http.server\nhttp.server.HTTPServer(('127.0.0.1', 29997), None)",
    "urllib": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')",
    "TCPStore": "import torch.distributed as d\nd.TCPStore('127.0.0.1', 29999, 1, True)",
    "TCPStore of C++": "import torch\ntorch._C._distributed_c10d.TCPStore('127.0.0.1', 29998, 1, True)",
    "process group": "import torch.distributed as d\nd.init_process_group('gloo', 'file://VICTIM/pg', rank=0, world_size=1)",
    "torch.hub": "import torch\ntorch.hub.load('a/b', 'c')",
    # The interpreter's insides.
    "ctypes": "import ctypes\nctypes.CDLL(None).system(b'touch VICTIM/ct')",
    "ctypes through torch": "import torch\ntorch._ops.ctypes.CDLL(None).system(b'touch VICTIM/ct2')",
    "load_library": "import torch\ntorch.ops.load_library('/lib/x86_64-linux-gnu/libc.so.6')",
    "print.__self__": "print.__self__.open('VICTIM/b', 'w')",
    "exec": "exec(\"open('VICTIM/e', 'w')\")",
    "import by name": "__import__('os').system('touch VICTIM/im')",
    "frames": "import sys\nsys._getframe(1).f_globals['os'].system('touch VICTIM/fr')",
    "own audit hook": "import sys\nsys.addaudithook(print)",
    "excepthook": "import sys\nsys.excepthook = lambda *a: open('VICTIM/eh', 'w')\n1 / 0",
    "atexit": "import atexit\natexit.register(lambda: open('VICTIM/ae', 'w'))",
    "finalizer": "class A:\n    def __del__(self): open('VICTIM/del', 'w')\nA()",
    # The machine.
    "memory": "import torch\nx = [torch.ones(1 << 28) for _ in range(40)]",
    "time": "x = 1\nwhile True: x += sum(range(100000))",
    "time that catches": "while True:\n    try:\n        while True: sum(range(100000))\n    except BaseException: pass",
    "disk": "f = open('big', 'wb')\nfor _ in range(200): f.write(bytes(1 << 20))",
    "crash": "import torch\ntorch.empty(0).set_(torch.ones(1).untyped_storage(), 0, (1,), (1,))\ntorch.ones(1).as_strided((1,), (1,), 1 << 40)",
    "recursion": "import sys\nsys.setrecursionlimit(10 ** 6)\nf = lambda x: f([x])\nf(1)",
    "output": "while True: print('x' * 1000000)",
}

#: Stopped by the clock or the machine's limits, whatever other layers there are.
SLOW = {"memory", "time", "time that catches", "recursion", "output"}

#: Not only refused: known to be stopped by the kernel's layers alone.
BY_KERNEL_ONLY = {
    "_posixsubprocess",
    "jit's own save",
    "storage written to a file",
    "TCPStore of C++",
    "os.mkfifo",
}
