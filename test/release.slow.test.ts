import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

// Everything that `npm run release -- --dry-run` makes.

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
const SBOM = `sluice-${version}.cdx.json`;

let folder: string;
beforeAll(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'sluice-release-')), 'release');
  const env = { ...process.env, PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}` };
  const { stdout } = await run(process.execPath, ['scripts/release.ts', '--dry-run', folder], { cwd: ROOT, env });
  expect(stdout).toContain(`dry run of release ${version}`);
});
afterAll(() => rm(join(folder, '..'), { recursive: true }));

const read = (name: string) => readFile(join(folder, name));

const sbomSchema = z.object({
  bomFormat: z.literal('CycloneDX'),
  specVersion: z.literal('1.6'),
  components: z.array(
    z.object({
      group: z.string().optional(),
      name: z.string(),
      version: z.string(),
      purl: z.string(),
      licenses: z.array(z.looseObject({})),
      hashes: z.array(z.looseObject({})),
    }),
  ),
});

async function componentsOf(name: string) {
  const { components } = sbomSchema.parse(JSON.parse(String(await read(name))));
  return new Map(
    components.map((component) => [[component.group, component.name].filter(Boolean).join('/'), component]),
  );
}

describe('the dry run of a release', () => {
  it('makes all files, with checksums', async () => {
    const names = (await readdir(folder)).sort();
    expect(names).toEqual(
      ['SHA256SUMS', 'image-tags.txt', 'licenses.json', 'release-notes.md', `sluice-${version}.tgz`, SBOM].sort(),
    );
    const sums = String(await read('SHA256SUMS'))
      .trim()
      .split('\n');
    expect(sums).toHaveLength(names.length - 1);
    for (const line of sums) {
      const [hash, name = ''] = line.split('  ');
      expect(
        createHash('sha256')
          .update(await read(name))
          .digest('hex'),
        name,
      ).toBe(hash);
    }
  });

  it('lists what users get in the SBOM, with versions and licenses, and no tools of the development', async () => {
    const { dependencies } = JSON.parse(await readFile(join(ROOT, 'packages/server/package.json'), 'utf8'));
    const components = await componentsOf(SBOM);
    for (const [name, range] of Object.entries(dependencies)) {
      if (name.startsWith('@sluice/')) continue;
      expect(components.get(name), name).toMatchObject({ version: range, licenses: expect.any(Array) });
    }
    for (const name of ['vitest', 'vite', 'typescript', '@biomejs/biome', 'oidc-provider']) {
      expect(components.has(name), name).toBe(false);
    }
    for (const name of ['react', '@carbon/react', '@codemirror/view']) expect(components.has(name), name).toBe(true);
  });

  it('has an SBOM that is valid', async () => {
    const schemas = join(ROOT, 'node_modules/@cyclonedx/cyclonedx-library/res/schema');
    const schema = async (name: string) =>
      JSON.parse(await readFile(join(schemas, `${name}.SNAPSHOT.schema.json`), 'utf8'));
    const ajv = new Ajv({ strict: false, validateFormats: false });
    ajv.addSchema(await schema('spdx'), 'http://cyclonedx.org/schema/spdx.SNAPSHOT.schema.json');
    ajv.addSchema(await schema('jsf-0.82'), 'http://cyclonedx.org/schema/jsf-0.82.SNAPSHOT.schema.json');
    const validate = ajv.compile(await schema('bom-1.6'));
    validate(JSON.parse(String(await read(SBOM))));
    expect(validate.errors).toBeNull();
  });

  it('has the release notes and the tags of the images', async () => {
    expect(String(await read('release-notes.md'))).toMatch(/^- /m);
    expect(String(await read('image-tags.txt'))).toMatch(/^sluice:\d+\.\d+\.\d+\n/);
  });
});
