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
import { limits } from './validate/reader.ts';

/** A busy machine is to have time. */
const PATIENCE_MS = 60_000;
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

function started(compileMs = PATIENCE_MS): ActionCompiler {
  compiler = new ActionCompiler({ compileMs });
  return compiler;
}

async function reasonOf(compiling: Promise<unknown>): Promise<string> {
  const error = await compiling.then(
    () => new Error('it compiled'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ActionCompileError)) throw error;
  return error.message;
}

describe('a component', () => {
  it('becomes an action with its checksum, be that given or not', { timeout: PATIENCE_MS }, async () => {
    const [found, given] = await Promise.all([started().compile(component), compiler.compile(component, 'given')]);
    expect(found.checksum).toBe(createHash('sha256').update(component).digest('hex'));
    expect(given).toEqual({ ...found, checksum: 'given' });
    expect(found.modules.map(({ name }) => name)).toContain('action.core.wasm');
    for (const { bytes } of found.modules) expect(WebAssembly.validate(Uint8Array.from(bytes))).toBe(true);
    expect(found.glue).toContain('evaluate');
  });

  it('may have 30 MiB', { timeout: PATIENCE_MS }, async () => {
    const filled = limits.fileBytes - 2048;
    const large = await coreAction({
      memory: String(limits.memoryPages),
      more: `(data (i32.const 8192) "${'x'.repeat(filled)}")`,
      evaluate: '',
    });
    expect(large.length).toBeGreaterThan(filled);
    expect(large.length).toBeLessThanOrEqual(limits.fileBytes);
    const { modules } = await started().compile(large);
    expect(modules.map(({ bytes }) => bytes.length)).toContainEqual(expect.toSatisfy((length) => length > filled));
  });

  it.each([
    [
      'no WebAssembly',
      () => Buffer.from('export function evaluate() {}'),
      /^not a component: it does not begin as one does/,
    ],
    ['a core module', () => Buffer.from('\0asm\x01\0\0\0'), /^a core module, not a component/],
    ['nothing', () => new Uint8Array(), /^not a component: the file is empty/],
    ['cut off', () => component.subarray(0, 200), /^not a whole component: it is cut off after 200 bytes, /],
    [
      'invalid in a body',
      () => writtenAction(coreActionText({ evaluate: '(i32.const 1)' })),
      /^not a valid component: type mismatch/,
    ],
    ['too large', () => new Uint8Array(limits.fileBytes + 1), /^it has 31457281 bytes, actions may have 31457280/],
  ])('that is %s is refused', { timeout: PATIENCE_MS }, async (_, bytes, message) => {
    expect(await reasonOf(started().compile(await bytes()))).toMatch(message);
    expect(children()).toEqual([]);
  });

  it('that takes longer than the deadline is refused', async () => {
    expect(await reasonOf(started(1).compile(component))).toBe(
      'compiling it took longer than 0.001 s; make it smaller',
    );
    expect(children()).toEqual([]);
  });
});

describe('processes', () => {
  it('are two at once: what comes later waits for its turn', { timeout: PATIENCE_MS }, async () => {
    started();
    expect(children()).toEqual([]);
    // With a checksum, those whose turn it is have their process at once.
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

  it('of what was refused make room, too', { timeout: PATIENCE_MS }, async () => {
    started();
    const refused = [1, 2, 3].map((index) => reasonOf(compiler.compile(Buffer.from('text'), `refused ${index}`)));
    const last = compiler.compile(component, 'last');
    expect(children()).toHaveLength(2);
    expect(new Set(await Promise.all(refused)).size).toBe(1);
    expect((await last).checksum).toBe('last');
  });

  it('are ended when it is closed, and what waits is refused', { timeout: PATIENCE_MS }, async () => {
    started();
    const reasons = ['a', 'b', 'c', 'd'].map((name) => reasonOf(compiler.compile(component, name)));
    // Its checksum is still to be found.
    reasons.push(reasonOf(compiler.compile(component)));
    expect(children()).toHaveLength(2);
    await compiler.close();
    expect(children()).toEqual([]);
    const [ended, stopping] = ['the compiling process ended', 'the service is stopping'];
    expect(await Promise.all(reasons)).toEqual([ended, ended, stopping, stopping, stopping]);
    expect(await reasonOf(compiler.compile(component))).toBe(stopping);
    expect(children()).toEqual([]);
  });

  it('find the tools where node_modules is a link', { timeout: PATIENCE_MS }, async () => {
    const folder = await copied();
    try {
      await writeFile(join(folder, 'action.wasm'), component);
      const script = `
        import { readFileSync, writeFileSync } from 'node:fs';
        import { ActionCompiler } from './packages/server/src/policy/sandbox/compiler.ts';
        const compiler = new ActionCompiler({ compileMs: ${PATIENCE_MS} });
        const { glue } = await compiler.compile(readFileSync('action.wasm'));
        writeFileSync('glue.js', glue);
        await compiler.close();`;
      execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd: folder, env: {} });
      expect(await readFile(join(folder, 'glue.js'), 'utf8')).toBe((await started().compile(component)).glue);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

/** What compiling processes that were taken over say, in 48 MiB (`all`) or more. */
const SAYING = [
  ['a first word of 64 KiB', `padded(64 * KIB)`, 'as it said'],
  ['a first word of more, before it has come', `announce(64 * KIB + 1)`, 'too much'],
  [
    'a refusal of 1000 characters',
    `wire.send({ kind: 'refused', message: '\\u0001'.repeat(1000) })`,
    '\u0001'.repeat(1000),
  ],
  [
    '256 modules',
    `modules(256); for (let each = 0; each < 257; each++) wire.sendBytes(some(KIB))`,
    '256 of 262144 bytes',
  ],
  [
    '48 MiB in all',
    `const head = modules(1); wire.sendBytes(some(0)); wire.sendBytes(some(48 * MIB - head - 8))`,
    /^1 of 50331\d\d\d bytes$/,
  ],
  ['a byte more', `const head = modules(1); wire.sendBytes(some(0)); announce(48 * MIB - head - 7)`, 'too much'],
  ['more in many pieces', `modules(256); for (let each = 0; each < 257; each++) wire.sendBytes(some(MIB))`, 'too much'],
  ['glue of more', `modules(0); announce(48 * MIB)`, 'too much'],
] as const;

/** Stands for `compiling/main.ts`; its component is the name of what it is to say. */
const FORGED = `
import { writeSync } from 'node:fs';
import { Wire } from '../host/wire.ts';
const KIB = 1024;
const MIB = 1024 * KIB;
const wire = new Wire();
const some = (bytes) => new Uint8Array(bytes);
/** The head of a frame that does not come. */
const announce = (length) => writeSync(1, new Uint32Array([length]));
const padded = (length) => {
  const message = { kind: 'refused', message: 'as it said', padding: '' };
  wire.send({ ...message, padding: 'x'.repeat(length - JSON.stringify(message).length) });
};
/** The bytes of the frame. */
const modules = (count) => {
  const modules = Array.from({ length: count }, (_, at) => ({ name: \`action.core\${at}.wasm\`, pages: 1024 }));
  const message = { kind: 'compiled', modules };
  wire.send(message);
  return 4 + JSON.stringify(message).length;
};
const saying = {
  ${SAYING.map(([what, script]) => `${JSON.stringify(what)}() { ${script} },`).join('\n')}
};
wire.message();
const component = wire.bytes();
wire.bytes();
saying[component]();
// It stays until it is ended.
wire.bytes();
`;

describe('a compiling process that was taken over', () => {
  let reasons: Record<string, string>;
  beforeAll(async () => {
    const folder = await copied();
    try {
      await writeFile(join(folder, 'packages/server/src/policy/sandbox/compiling/main.ts'), FORGED);
      const script = `
        import { ActionCompiler } from './packages/server/src/policy/sandbox/compiler.ts';
        const compiler = new ActionCompiler();
        const reasons = {};
        for (const what of ${JSON.stringify(SAYING.map(([what]) => what))}) {
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
  }, PATIENCE_MS);

  it.each(SAYING)('may say so much, and is ended when it says more: %s', (what, _script, expected) => {
    const tooMuch = 'the compiling process said more than it may: 64 KiB at first, and 48 MiB in all';
    if (expected === 'too much') expect(reasons[what]).toBe(tooMuch);
    else expect(reasons[what]).toMatch(expected);
  });
});

/** A folder with the sources of the server, and with its modules as a link. */
async function copied(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-compiler-'));
  await cp(join(SERVER, 'src'), join(folder, 'packages/server/src'), { recursive: true });
  await cp(join(SERVER, 'package.json'), join(folder, 'packages/server/package.json'));
  await symlink(join(SERVER, '../../node_modules'), join(folder, 'node_modules'));
  return folder;
}
