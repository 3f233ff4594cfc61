import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ActionCompileError } from './action.ts';
import { ActionCompiler } from './compiler.ts';
import { children } from './fixtures/child-processes.ts';
import { coreAction, coreActionText, writtenAction } from './fixtures/hostile/core-action.ts';
import { ordinaryWat } from './fixtures/ordinary-wat.ts';
import { componentOfCore } from './fixtures/wat-component.ts';
import { COMPONENT_LIMITS } from './validate/reader.ts';

/** Generous, so that a slow machine does not exceed it where the deadline is not the subject. */
const TIMEOUT_MS = 60_000;
const SERVER = fileURLToPath(new URL('../../..', import.meta.url));

let component: Uint8Array;
beforeAll(async () => {
  component = await componentOfCore(ordinaryWat);
});

let compiler = new ActionCompiler();
afterEach(async () => {
  await compiler.close();
  expect(children()).toEqual([]);
});

function createCompiler(compileMs = TIMEOUT_MS): ActionCompiler {
  compiler = new ActionCompiler({ compileMs });
  return compiler;
}

async function reasonOf(compiling: Promise<unknown>): Promise<string> {
  const error = await compiling.then(
    () => new Error('the component compiled'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ActionCompileError)) throw error;
  return error.message;
}

describe('a component', () => {
  it('becomes an action with its checksum, whether given or computed', { timeout: TIMEOUT_MS }, async () => {
    const [found, given] = await Promise.all([
      createCompiler().compile(component),
      compiler.compile(component, 'given'),
    ]);
    expect(found.checksum).toBe(createHash('sha256').update(component).digest('hex'));
    expect(given).toEqual({ ...found, checksum: 'given' });
    expect(found.modules.map(({ name }) => name)).toContain('action.core.wasm');
    for (const { bytes } of found.modules) expect(WebAssembly.validate(Uint8Array.from(bytes))).toBe(true);
    expect(found.glue).toContain('evaluate');
  });

  it('may be 30 MiB large', { timeout: TIMEOUT_MS, tags: ['slow'] }, async () => {
    const filled = COMPONENT_LIMITS.fileBytes - 2048;
    const large = await coreAction({
      memory: String(COMPONENT_LIMITS.memoryPages),
      more: `(data (i32.const 8192) "${'x'.repeat(filled)}")`,
      evaluate: '',
    });
    expect(large.length).toBeGreaterThan(filled);
    expect(large.length).toBeLessThanOrEqual(COMPONENT_LIMITS.fileBytes);
    const { modules } = await createCompiler().compile(large);
    expect(modules.map(({ bytes }) => bytes.length)).toContainEqual(expect.toSatisfy((length) => length > filled));
  });

  it.each([
    ['not WebAssembly', () => Buffer.from('export function evaluate() {}'), /^not a component: invalid header/],
    ['a core module', () => Buffer.from('\0asm\x01\0\0\0'), /^a core module, not a component/],
    ['an empty file', () => new Uint8Array(), /^not a component: the file is empty/],
    ['truncated', () => component.subarray(0, 200), /^truncated component: ends after 200 bytes, /],
    [
      'invalid in a function body',
      () => writtenAction(coreActionText({ evaluate: '(i32.const 1)' })),
      /^not a valid component: type mismatch/,
    ],
    [
      'too large',
      () => new Uint8Array(COMPONENT_LIMITS.fileBytes + 1),
      /^component too large: 31457281 bytes, maximum 31457280/,
    ],
  ])('is rejected: %s', { timeout: TIMEOUT_MS }, async (_, bytes, message) => {
    expect(await reasonOf(createCompiler().compile(await bytes()))).toMatch(message);
    expect(children()).toEqual([]);
  });

  it('is rejected when it exceeds the deadline', async () => {
    expect(await reasonOf(createCompiler(1).compile(component))).toBe(
      'compilation exceeded 0.001 s; make the component smaller',
    );
    expect(children()).toEqual([]);
  });
});

describe('compiler processes', () => {
  it('run two at a time, further components wait', { timeout: TIMEOUT_MS, tags: ['slow'] }, async () => {
    createCompiler();
    expect(children()).toEqual([]);
    // With a checksum, the first ones start their process synchronously.
    const names = ['a', 'b', 'c', 'd', 'e'];
    let most = 0;
    const compiled = names.map(async (name) => {
      const { checksum } = await compiler.compile(component, name);
      most = Math.max(most, children().length);
      return checksum;
    });
    expect(children()).toHaveLength(2);
    expect(await Promise.all(compiled)).toEqual(names);
    expect(most).toBe(2);
    expect(children()).toEqual([]);
  });

  it('of rejected components make room for others', { timeout: TIMEOUT_MS, tags: ['slow'] }, async () => {
    createCompiler();
    const rejected = [1, 2, 3].map((index) => reasonOf(compiler.compile(Buffer.from('text'), `rejected ${index}`)));
    const last = compiler.compile(component, 'last');
    expect(children()).toHaveLength(2);
    expect(new Set(await Promise.all(rejected)).size).toBe(1);
    expect((await last).checksum).toBe('last');
  });

  it('are killed when the compiler is closed, and pending components are rejected', {
    timeout: TIMEOUT_MS,
  }, async () => {
    createCompiler();
    const reasons = ['a', 'b', 'c', 'd'].map((name) => reasonOf(compiler.compile(component, name)));
    // Its checksum is still being computed.
    reasons.push(reasonOf(compiler.compile(component)));
    expect(children()).toHaveLength(2);
    await compiler.close();
    expect(children()).toEqual([]);
    const [exited, shuttingDown] = ['compiler process exited', 'service is shutting down'];
    expect(await Promise.all(reasons)).toEqual([exited, exited, shuttingDown, shuttingDown, shuttingDown]);
    expect(await reasonOf(compiler.compile(component))).toBe(shuttingDown);
    expect(children()).toEqual([]);
  });

  it('find the tools when node_modules is a link', { timeout: TIMEOUT_MS, tags: ['slow'] }, async () => {
    const folder = await copySources();
    try {
      await writeFile(join(folder, 'action.wasm'), component);
      const script = `
        import { readFileSync, writeFileSync } from 'node:fs';
        import { ActionCompiler } from './packages/server/src/policy/sandbox/compiler.ts';
        const compiler = new ActionCompiler({ compileMs: ${TIMEOUT_MS} });
        const { glue } = await compiler.compile(readFileSync('action.wasm'));
        writeFileSync('glue.js', glue);
        await compiler.close();`;
      execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd: folder, env: {} });
      expect(await readFile(join(folder, 'glue.js'), 'utf8')).toBe((await createCompiler().compile(component)).glue);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

/** Output of compromised compiler processes, below and above the limits. */
const OUTPUTS = [
  ['a first frame of 64 KiB', `padded(64 * KIB)`, 'as sent'],
  ['the header of a larger first frame', `announce(64 * KIB + 1)`, 'too much'],
  [
    'a rejection of 1000 characters',
    `pipe.send({ kind: 'rejected', message: '\\u0001'.repeat(1000) })`,
    '\u0001'.repeat(1000),
  ],
  [
    '256 modules',
    `modules(256); for (let each = 0; each < 257; each++) pipe.sendBytes(some(KIB))`,
    '256 of 262144 bytes',
  ],
  [
    '48 MiB in total',
    `const head = modules(1); pipe.sendBytes(some(0)); pipe.sendBytes(some(48 * MIB - head - 8))`,
    /^1 of 50331\d\d\d bytes$/,
  ],
  ['a byte more', `const head = modules(1); pipe.sendBytes(some(0)); announce(48 * MIB - head - 7)`, 'too much'],
  ['more in many frames', `modules(256); for (let each = 0; each < 257; each++) pipe.sendBytes(some(MIB))`, 'too much'],
  ['larger glue', `modules(0); announce(48 * MIB)`, 'too much'],
] as const;

/** Replaces `compiling/main.ts`; its component is the name of one of `OUTPUTS`. */
const FORGED = `
import { writeSync } from 'node:fs';
import { ParentPipe } from '../host/parent-pipe.ts';
const KIB = 1024;
const MIB = 1024 * KIB;
const pipe = new ParentPipe();
const some = (bytes) => new Uint8Array(bytes);
/** The header of a frame without its payload. */
const announce = (length) => writeSync(1, new Uint32Array([length]));
const padded = (length) => {
  const message = { kind: 'rejected', message: 'as sent', padding: '' };
  pipe.send({ ...message, padding: 'x'.repeat(length - JSON.stringify(message).length) });
};
/** Returns the bytes of the frame. */
const modules = (count) => {
  const modules = Array.from({ length: count }, (_, at) => ({ name: \`action.core\${at}.wasm\`, pages: 1024 }));
  const message = { kind: 'compiled', modules };
  pipe.send(message);
  return 4 + JSON.stringify(message).length;
};
const outputs = {
  ${OUTPUTS.map(([what, script]) => `${JSON.stringify(what)}() { ${script} },`).join('\n')}
};
const component = pipe.receiveBytes();
pipe.receiveBytes();
outputs[component]();
// Waits until it is killed.
pipe.receiveBytes();
`;

describe('a compromised compiler process', () => {
  let reasons: Record<string, string>;
  beforeAll(async () => {
    const folder = await copySources();
    try {
      await writeFile(join(folder, 'packages/server/src/policy/sandbox/compiling/main.ts'), FORGED);
      const script = `
        import { ActionCompiler } from './packages/server/src/policy/sandbox/compiler.ts';
        const compiler = new ActionCompiler();
        const reasons = {};
        for (const what of ${JSON.stringify(OUTPUTS.map(([what]) => what))}) {
          reasons[what] = await compiler.compile(Buffer.from(what)).then(
            ({ modules }) => {
              const bytes = modules.reduce((sum, module) => sum + module.bytes.length, 0);
              return \`\${modules.length} of \${bytes} bytes\`;
            },
            (error) => error.message,
          );
        }
        console.log(JSON.stringify(reasons));
        await compiler.close();`;
      const options = { cwd: folder, env: {}, encoding: 'utf8' } as const;
      reasons = JSON.parse(execFileSync(process.execPath, ['--input-type=module', '--eval', script], options));
    } finally {
      await rm(folder, { recursive: true });
    }
  }, TIMEOUT_MS);

  it.each(OUTPUTS)('is killed when it exceeds the limits: %s', (what, _script, expected) => {
    const tooMuch = 'compiler process sent too much data: limits are 64 KiB for the first frame and 48 MiB in total';
    if (expected === 'too much') expect(reasons[what]).toBe(tooMuch);
    else expect(reasons[what]).toMatch(expected);
  });
});

/** Creates a folder with the sources of the server and a link to its modules. */
async function copySources(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-compiler-'));
  await cp(join(SERVER, 'src'), join(folder, 'packages/server/src'), { recursive: true });
  await cp(join(SERVER, 'package.json'), join(folder, 'packages/server/package.json'));
  await symlink(join(SERVER, '../../node_modules'), join(folder, 'node_modules'));
  return folder;
}
