import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Scripts } from './host/loader.ts';

/** What a sandbox is started with: its scripts come as the first frame, so that it needs no file of ours. */
export interface SandboxScripts {
  /** A module, as text for `--eval`. */
  readonly loader: string;
  /** The first frame: `Scripts` as JSON. */
  readonly sources: Buffer;
}

/**
 * Reads the scripts in `folders`, of which `{first}/main` is run. Their types are taken out here, once: a process that
 * does so itself takes some 80 ms longer to start, and 25 MB more. `packages`: it may import packages of `node_modules`
 * too, as far as it may read them.
 */
export function readSandboxScripts(
  folders: readonly [string, ...string[]],
  { packages = false }: { readonly packages?: boolean } = {},
): SandboxScripts {
  const sources: Record<string, string> = {};
  for (const folder of folders) {
    const path = fileURLToPath(new URL(`./${folder}/`, import.meta.url));
    for (const name of readdirSync(path)) {
      if (/\.(?:test|fixture)\.ts$/.test(name)) continue;
      sources[`sandbox:///${folder}/${name}`] = javaScript(readFileSync(`${path}${name}`, 'utf8'));
    }
  }
  const main = `sandbox:///${folders[0]}/main.ts`;
  const scripts: Scripts = { main, sources, ...(packages && { packages: import.meta.url }) };
  const loader = javaScript(readFileSync(new URL('./host/loader.ts', import.meta.url), 'utf8'));
  return { loader, sources: Buffer.from(JSON.stringify(scripts)) };
}

function javaScript(source: string): string {
  // It warns of being new, to whoever reads the service's output and can do nothing about it.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}
