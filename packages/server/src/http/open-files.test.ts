import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { socketLimits } from './open-files.ts';

/** Runs a script in a process that may open 100 files. */
function run(script: string): unknown {
  const module = new URL('./open-files.ts', import.meta.url).href;
  const code = `import { canOpenFiles, openFilesLimit } from ${JSON.stringify(module)}; import fs from 'node:fs'; ${script}`;
  const command = 'ulimit -n 100; exec "$0" --input-type=module --eval "$1"';
  return JSON.parse(execFileSync('/bin/sh', ['-c', command, process.execPath, code], { encoding: 'utf8' }));
}

it('the limit of open files is that of the process, with or without /proc', () => {
  expect(run('console.log(openFilesLimit())')).toBe(100);
  const withoutProc = `import { syncBuiltinESMExports } from 'node:module';
    fs.readFileSync = () => { throw new Error('no /proc'); };
    syncBuiltinESMExports();
    process.report.excludeEnv = false;
    console.log(JSON.stringify([openFilesLimit(), process.report.excludeEnv]));`;
  expect(run(withoutProc)).toEqual([100, false]);
});

it('it is known whether more files can be opened', () => {
  const script = `const files = []; const before = [canOpenFiles(), canOpenFiles(50), canOpenFiles(200)];
    try { for (;;) files.push(fs.openSync('/dev/null')); } catch {}
    const during = [canOpenFiles(), process.stdout.writable]; fs.closeSync(files[0]);
    const after = canOpenFiles();
    console.log(JSON.stringify([before, during[0], after]));`;
  expect(run(script)).toEqual([[true, true, false], false, true]);
});

it('connections get shares of it, and none is limited without it', () => {
  expect(socketLimits(256)).toEqual({ listeners: 140, rejected: 12, upstreams: 64 });
  expect(socketLimits(undefined)).toEqual({ listeners: undefined, rejected: undefined, upstreams: undefined });
});

it('an unknown host name is not reported while no file can be opened, which a lookup needs', () => {
  const errors = new URL('./client/errors.ts', import.meta.url).href;
  const script = `const { connectionFailure } = await import(${JSON.stringify(errors)});
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND h'), { code: 'ENOTFOUND' });
    const failure = () => { const { kind, message } = connectionFailure('http://h/', cause, false); return [kind, message]; };
    const files = [];
    try { for (;;) files.push(fs.openSync('/dev/null')); } catch {}
    const during = failure();
    for (const file of files) fs.closeSync(file);
    console.log(JSON.stringify([during, failure()]));`;
  expect(run(script)).toEqual([
    ['aborted', 'upstream http://h/ is unreachable: no local sockets available (limit of open files)'],
    [
      'refused',
      expect.stringMatching(/^upstream http:\/\/h\/ has a host name that cannot be resolved \(ENOTFOUND\); /),
    ],
  ]);
});
