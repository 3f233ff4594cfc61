import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startCode } from '../examples/capability-service/code-process.ts';

// Limits of submitted code in the example in examples/capability-service: one escape attempt per test. A successful one
// prints `out`, leaves a file in the folder, or connects to the port.

let folder: string;
let requested = 0;
const site = createServer((socket) => {
  requested++;
  socket.destroy();
});
let port: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-sandbox-'));
  await writeFile(join(folder, 'note'), 'out');
  await writeFile(join(folder, 'env'), 'NOTE=out');
  await writeFile(join(folder, 'note.json'), '{"note":"out"}');
  await writeFile(join(folder, 'note.mjs'), 'console.log("out")');
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  port = String(Object(site.address()).port);
});
afterAll(async () => {
  site.close();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => {
  requested = 0;
});

/** Runs the code, which has the folder and the port, and returns its output. */
async function run(code: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const environment = { FOLDER: folder, PORT: port, ...more };
  const known = 'var { FOLDER, PORT } = process.env;';
  const child = startCode({ code: `${known} ${code}`, arguments: {}, environment, timeout: 0 });
  const killTimer = setTimeout(() => child.kill('SIGKILL'), 10_000);
  const both = await Promise.all([text(child.stdout), text(child.stderr)]);
  clearTimeout(killTimer);
  return both.join('');
}

type Escape = readonly [way: string, code: string, refused: RegExp];

const DENIED = /ERR_ACCESS_DENIED|Access to this API has been restricted|ERR_DLOPEN_DISABLED/;
/** Globals that do not exist. */
const REMOVED = /ERR_UNKNOWN_BUILTIN_MODULE|is not a function|does not provide an export|of undefined/;

const READS: readonly Escape[] = [
  ['fs', 'console.log(require("fs").readFileSync(FOLDER + "/note", "utf8"))', DENIED],
  [
    'fs/promises',
    'import { readFile } from "fs/promises"; console.log(await readFile(FOLDER + "/note", "utf8"))',
    DENIED,
  ],
  ['fs streams', 'require("fs").createReadStream(FOLDER + "/note").pipe(process.stdout)', DENIED],
  ['fs.openAsBlob', 'console.log(await (await (await import("fs")).openAsBlob(FOLDER + "/note")).text())', DENIED],
  ['fs.readdir', 'console.log(require("fs").readdirSync(FOLDER).length && "out")', DENIED],
  ['import', 'await import(FOLDER + "/note.mjs")', DENIED],
  ['require', 'console.log(require(FOLDER + "/note.json").note)', DENIED],
  ['process.loadEnvFile', 'process.loadEnvFile(FOLDER + "/env"); console.log(process.env.NOTE)', DENIED],
  ['process.chdir', 'process.chdir(FOLDER); console.log("out")', DENIED],
  [
    'node:test',
    `require("node:test").run({ files: [FOLDER + "/note.mjs"], isolation: "none" })
       .on("data", ({ data }) => console.log(data.details?.error?.message))`,
    DENIED,
  ],
  ['node:sqlite', 'new (require("node:sqlite").DatabaseSync)(FOLDER + "/note"); console.log("out")', REMOVED],
  [
    'node:wasi',
    'new (require("wasi").WASI)({ version: "preview1", preopens: { "/": "/" } }); console.log("out")',
    DENIED,
  ],
  ['OpenSSL', 'require("crypto").createPrivateKey(new URL("file://" + FOLDER + "/note"))', DENIED],
  ['certificates', 'console.log(require("tls").getCACertificates("system").length && "out")', REMOVED],
  ['memory', 'require("node:ffi").getUint8(4096n, 0); console.log("out")', DENIED],
  ['the inspector', 'new (require("inspector").Session)().connect(); console.log("out")', DENIED],
];

const WRITES: readonly Escape[] = [
  ['fs', 'require("fs").writeFileSync(FOLDER + "/new", "")', DENIED],
  ['fs.mkdtemp', 'require("fs").mkdtempSync(FOLDER + "/new")', DENIED],
  ['fs.Utf8Stream', 'new (require("fs").Utf8Stream)({ dest: FOLDER + "/new", sync: true }).write("")', DENIED],
  ['node:sqlite', 'new (require("node:sqlite").DatabaseSync)(FOLDER + "/new").exec("create table t (a)")', REMOVED],
  [
    'node:sqlite, imported',
    'import * as it from "node:sqlite"; new it.DatabaseSync(FOLDER + "/new").exec("create table t (a)")',
    REMOVED,
  ],
  [
    'node:sqlite, by ATTACH',
    `const it = process.getBuiltinModule("node:sqlite");
     new it.DatabaseSync(":memory:").exec("attach '" + FOLDER + "/new' as n; create table n.t (a)")`,
    REMOVED,
  ],
  [
    'node:sqlite, by VACUUM INTO',
    `const it = require("module")._load("node:sqlite");
     new it.DatabaseSync(":memory:").exec("create table t (a); vacuum into '" + FOLDER + "/new'")`,
    REMOVED,
  ],
  [
    'node:sqlite, by backup',
    'const it = require("node:sqlite"); it.backup(new it.DatabaseSync(":memory:"), FOLDER + "/new")',
    REMOVED,
  ],
  ['V8, of its compiler', `${flags('--trace-turbo-path=', '--trace-turbo')} ${hot()}`, REMOVED],
  [
    'V8, of its code',
    `${flags('--redirect-code-traces-to=', '--redirect-code-traces', '--print-opt-code')} ${hot()}`,
    REMOVED,
  ],
  ['V8, imported', 'import { setFlagsFromString as set } from "v8"; set("--trace-turbo"); console.log("out")', REMOVED],
  ['a heap snapshot', 'require("v8").writeHeapSnapshot(FOLDER + "/new")', DENIED],
  ['a heap snapshot near the limit', 'require("v8").setHeapSnapshotNearHeapLimit(1); console.log("out")', DENIED],
  ['a heap profile near the limit', 'require("v8").setHeapProfileNearHeapLimit(1); console.log("out")', DENIED],
  ['a report', 'process.report.writeReport(FOLDER + "/new")', REMOVED],
  [
    'a report when memory ends',
    `process.report.directory = FOLDER; process.report.reportOnFatalError = true;
     const all = []; for (;;) all.push(new Array(1e5).fill(0).map((n) => ({ n })))`,
    REMOVED,
  ],
  [
    'trace events',
    'require("trace_events").createTracing({ categories: ["node"] }).enable(); console.log("out")',
    DENIED,
  ],
  ['the compile cache', 'console.log(require("module").enableCompileCache(FOLDER + "/new").message)', /not granted/],
  ['a snapshot of node:test', 'require("node:test")((t) => t.assert.fileSnapshot(1, FOLDER + "/new"))', DENIED],
  ['a socket', 'require("net").createServer().listen(FOLDER + "/new", () => console.log("out"))', DENIED],
  [
    'a socket, by its handle',
    'new process.stdout._handle.constructor(1).bind(FOLDER + "/new"); console.log("out")',
    DENIED,
  ],
];

const CONNECTIONS: readonly Escape[] = [
  ['net', 'require("net").connect(+PORT, "127.0.0.1")', DENIED],
  ['net, listening', 'require("net").createServer().listen(0, () => console.log("out"))', DENIED],
  ['dgram', 'require("dgram").createSocket("udp4").bind(0, () => console.log("out"))', DENIED],
  ['dns', 'require("dns").lookup("localhost", (error) => console.log(error ?? "out"))', DENIED],
  ['dns servers', 'require("dns").resolve4("example.com", (error) => console.log(error ?? "out"))', DENIED],
  ['fetch', 'await fetch("http://127.0.0.1:" + PORT)', DENIED],
  ['WebSocket', 'new WebSocket("ws://127.0.0.1:" + PORT).onerror = () => console.log("refused")', /refused/],
  ['http2', 'require("http2").connect("http://127.0.0.1:" + PORT)', DENIED],
  ['tls', 'require("tls").connect(+PORT, "127.0.0.1")', DENIED],
  ['the debugger', 'require("inspector").open(0); console.log("out")', DENIED],
];

const PROCESSES: readonly Escape[] = [
  [
    'child_process',
    'console.log(require("child_process").execFileSync("echo", ["out"], { encoding: "utf8" }))',
    DENIED,
  ],
  [
    'child_process, by its handle',
    `const { _handle } = new (require("child_process").ChildProcess)();
     if (_handle.spawn("/bin/true", ["true"], undefined, [], [], 0) === 0) console.log("out")`,
    DENIED,
  ],
  ['cluster', 'require("cluster").fork(); console.log("out")', DENIED],
  ['worker_threads', 'new (require("worker_threads").Worker)("console.log(\'out\')", { eval: true })', DENIED],
  ['execve', 'process.execve("/bin/echo", ["echo", "out"])', DENIED],
  ['process.binding', 'process.binding("process_wrap"); console.log("out")', DENIED],
  ['process._linkedBinding', 'process._linkedBinding("process_wrap"); console.log("out")', DENIED],
  ['native code', 'process.dlopen({ exports: {} }, FOLDER + "/note"); console.log("out")', DENIED],
  ['FFI', 'require("node:ffi").dlopen(null, {}); console.log("out")', DENIED],
  ['a signal', 'process.kill(process.ppid, 0); console.log("out")', REMOVED],
  ['a signal, imported', 'import { kill } from "process"; kill(process.ppid, 0); console.log("out")', REMOVED],
  ['a signal, from below', 'process._kill(process.ppid, 0); console.log("out")', REMOVED],
  ['a signal to debug', 'process._debugProcess(process.pid); console.log("out")', REMOVED],
  ['priority', 'require("os").setPriority(process.ppid, require("os").getPriority()); console.log("out")', REMOVED],
  ['priority, imported', 'import { setPriority } from "os"; setPriority(0, 1); console.log("out")', REMOVED],
];

/** Sets flags of V8, the first of which names a file in the folder. */
function flags(file: string, ...others: readonly string[]): string {
  const set = 'require("v8").setFlagsFromString';
  return [`${set}("${file}" + FOLDER + "/new");`, ...others.map((flag) => `${set}("${flag}");`)].join(' ');
}

/** Makes V8 compile code. */
function hot(): string {
  return 'function sum(n) { let s = 0; for (let i = 0; i < n; i++) s += i * n; return s } for (let i = 0; i < 3000; i++) sum(3000)';
}

for (const [what, ways] of [
  ['reads no file', READS],
  ['writes no file', WRITES],
  ['has no connection', CONNECTIONS],
  ['reaches no process', PROCESSES],
] as const) {
  describe(`code ${what}`, () => {
    for (const [way, code, rejected] of ways) {
      it(`by ${way}`, async () => {
        const files = await readdir(folder);
        const put = await run(code);
        expect(put).toMatch(rejected);
        expect(put).not.toMatch(/^out$/m);
        expect(await readdir(folder)).toEqual(files);
        expect(requested).toBe(0);
      });
    }
  });
}

it('code is not affected by its environment', async () => {
  const files = await readdir(folder);
  const NODE_OPTIONS = `--localstorage-file=${folder}/new --allow-fs-read=* --allow-fs-write=*`;
  const code = 'console.log(process.env.NODE_OPTIONS, process.permission.has("fs.read")); localStorage.a = "b"';
  const put = await run(code, { NODE_OPTIONS, NODE_V8_COVERAGE: `${folder}/new` });
  expect(put).toContain(`${NODE_OPTIONS} false\n`);
  expect(await readdir(folder)).toEqual(files);
});

it('code has little memory', async () => {
  const limit = Number(await run('console.log(require("v8").getHeapStatistics().heap_size_limit / 2 ** 20)'));
  expect(limit).toBeLessThan(256);
});
