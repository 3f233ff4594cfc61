import { execFile, spawnSync } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const BUILD_MS = 1_800_000;

/** Runs a build with low priority, and with additional environment variables. */
export async function runBuild(
  file: string,
  args: readonly string[],
  cwd: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<void> {
  const env = { ...process.env, ...variables };
  await execute('nice', ['-n', '15', file, ...args], { cwd, env, timeout: BUILD_MS, maxBuffer: 2 ** 26 });
}

/**
 * Creates a virtual environment in a folder with the packages of a file, unless it is up to date. Returns its folder of programs,
 * or what is missing on this machine. `variables` are those of the environment of the installation.
 */
export async function pythonEnvironment(
  folder: string,
  requirements: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<{ readonly bin: string } | { readonly missing: string }> {
  const interpreter = await findPython();
  if (interpreter === undefined) return { missing: 'Python 3.10 or newer' };
  const bin = join(folder, 'bin');
  const installed = join(folder, 'requirements.txt');
  const wanted = await readFile(requirements, 'utf8');
  if ((await readFile(installed, 'utf8').catch(() => '')) !== wanted) {
    const cwd = dirname(requirements);
    await rm(folder, { recursive: true, force: true });
    await runBuild(interpreter, ['-m', 'venv', folder], cwd);
    const args = ['install', '--quiet', '--no-deps', '--requirement', requirements];
    await runBuild(join(bin, 'pip'), args, cwd, variables);
    await writeFile(installed, wanted);
  }
  return { bin };
}

/** A Python of a supported version: the one of the path, or the newest of pyenv. */
async function findPython(): Promise<string | undefined> {
  const versions = join(homedir(), '.pyenv/versions');
  const installed = await readdir(versions).catch(() => []);
  const newestFirst = installed.toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  const candidates = [...newestFirst.map((version) => join(versions, version, 'bin/python3')), 'python3'];
  const supported = 'import sys; sys.exit(sys.version_info < (3, 10))';
  return candidates.find((path) => spawnSync(path, ['-c', supported]).status === 0);
}
