import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type HostEnvironment, PROGRAMS, type Scope } from './programs.ts';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-programs-'));
});
afterEach(() => rm(home, { recursive: true }));

async function fileOf(program: string, around: Partial<HostEnvironment>, scope: Scope = 'user'): Promise<string> {
  const host: HostEnvironment = { platform: 'linux', env: {}, home, cwd: '/project', ...around };
  const file = PROGRAMS.find(({ name }) => name === program)?.files[scope];
  return (await file?.(host))?.replace(home, '~') ?? 'none';
}

it.each([
  ['linux', 'claude', '~/.config/Claude/claude_desktop_config.json'],
  ['linux', 'vscode', '~/.config/Code/User/mcp.json'],
  ['linux', 'cursor', '~/.cursor/mcp.json'],
  ['linux', 'claude-code', '~/.claude.json'],
  ['darwin', 'claude', '~/Library/Application Support/Claude/claude_desktop_config.json'],
  ['darwin', 'vscode', '~/Library/Application Support/Code/User/mcp.json'],
  ['darwin', 'cursor', '~/.cursor/mcp.json'],
  ['win32', 'claude', '~/AppData/Roaming/Claude/claude_desktop_config.json'],
  ['win32', 'vscode', '~/AppData/Roaming/Code/User/mcp.json'],
] as const)('on %s, %s is found at %s', async (platform, program, path) => {
  expect(await fileOf(program, { platform })).toBe(path);
});

it('folders of environment variables take precedence', async () => {
  expect(await fileOf('vscode', { env: { XDG_CONFIG_HOME: '/x' } })).toBe('/x/Code/User/mcp.json');
  expect(await fileOf('claude-code', { env: { CLAUDE_CONFIG_DIR: '/c' } })).toBe('/c/.claude.json');
  expect(await fileOf('vscode', { platform: 'win32', env: { APPDATA: '/r' } })).toBe('/r/Code/User/mcp.json');
});

it('a packaged Claude Desktop on Windows has its settings in the folder of the package', async () => {
  const packages = join(home, 'AppData', 'Local', 'Packages');
  await mkdir(join(packages, 'Claude_abc'), { recursive: true });
  const path = 'LocalCache/Roaming/Claude/claude_desktop_config.json';
  expect(await fileOf('claude', { platform: 'win32' })).toBe(`~/AppData/Local/Packages/Claude_abc/${path}`);
  await mkdir(join(packages, 'Claude_def'));
  await expect(fileOf('claude', { platform: 'win32' })).rejects.toMatchObject({
    message: 'Claude Desktop is installed more than once; choose one with --file',
    notes: [join(packages, 'Claude_abc', path), join(packages, 'Claude_def', path)],
  });
});

it('those with project configurations use the project folder', async () => {
  expect(await fileOf('claude', {}, 'project')).toBe('none');
  expect(await fileOf('claude-code', {}, 'project')).toBe('/project/.mcp.json');
  expect(await fileOf('cursor', {}, 'project')).toBe('/project/.cursor/mcp.json');
  expect(await fileOf('vscode', {}, 'project')).toBe('/project/.vscode/mcp.json');
});
