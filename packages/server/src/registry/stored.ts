import { isJsonObject, parseLossless } from '../json/lossless.ts';
import { elements, members } from '../json/scan.ts';
import type { CacheHint, Forward, KnownCatalogue, Labels } from './entries.ts';
import { readLabels } from './json.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from './names.ts';

/** Namespaces and forwards as `registry.json` keeps them (decisions 1.5). */

export function storedNamespace(namespace: { name: Namespace; labels: Labels }, indent?: number): string {
  return JSON.stringify({ name: namespace.name, labels: namespace.labels }, null, indent);
}

export function storedForward(forward: Forward, indent?: number): string {
  const { name, address, namespace, labels, prefix, source } = forward;
  const shown = JSON.stringify({ name, address, namespace, labels, ...(prefix && { prefix }), source }, null, indent);
  const catalogues = forward.catalogues.map(
    ({ key, era, capabilities, identity, cache }) =>
      `${JSON.stringify({ key, era, capabilities, cache }).slice(0, -1)},"identity":${identity}}`,
  );
  // The upstream's own words are appended as text: they are kept exactly as it sent them.
  const end = indent ? '\n}' : '}';
  const separator = indent ? `,\n${' '.repeat(indent)}` : ',';
  return `${shown.slice(0, -end.length)}${separator}"upstream":${indent ? ' ' : ''}[${catalogues.join(',')}]${end}`;
}

/** Reads a stored namespace; a text saying why not when it cannot be one. */
export function readNamespace(json: string): { name: Namespace; labels: Labels } | string {
  const found = textOfMembers(json);
  const name: unknown = JSON.parse(found.get('name') ?? 'null');
  const parsed = typeof name === 'string' ? parseNamespace(name) : undefined;
  return parsed
    ? { name: parsed, labels: readLabels(found.get('labels')) }
    : `invalid namespace name ${found.get('name')}`;
}

/** Reads a stored forward; `next` numbers one that carries no number. A text saying why not when it cannot be one. */
export function readForward(json: string, next: () => number): Forward | string {
  const found = textOfMembers(json);
  const value = (key: string): unknown => JSON.parse(found.get(key) ?? 'null');
  const name = value('name');
  const address = value('address');
  if (typeof name !== 'string' || typeof address !== 'string') return 'name and address are required';
  if (!URL.canParse(address)) return `invalid address ${JSON.stringify(address)}`;
  const namespace = parseNamespace(String(value('namespace') ?? DEFAULT_NAMESPACE));
  if (!namespace) return `invalid namespace ${found.get('namespace')}`;
  const prefix = value('prefix');
  const source = value('source');
  return {
    name,
    address,
    namespace,
    labels: readLabels(found.get('labels')),
    prefix: typeof prefix === 'string' ? prefix : '',
    source: typeof source === 'number' ? source : next(),
    catalogues: readCatalogues(found.get('upstream')),
  };
}

function readCatalogues(text: string | undefined): KnownCatalogue[] {
  const catalogues: KnownCatalogue[] = [];
  if (text === undefined) return catalogues;
  for (const { start, end } of elements(text)) {
    const found = textOfMembers(text.slice(start, end));
    const key: unknown = JSON.parse(found.get('key') ?? 'null');
    const era = JSON.parse(found.get('era') ?? 'null') === 'modern' ? 'modern' : 'legacy';
    const capabilities = parseLossless(found.get('capabilities') ?? '{}');
    const identity = found.get('identity');
    if (typeof key !== 'string' || identity === undefined || !isJsonObject(capabilities)) continue;
    catalogues.push({ key, era, capabilities, identity, cache: readCache(found.get('cache')) });
  }
  return catalogues;
}

function readCache(text: string | undefined): Record<string, CacheHint> {
  const hints: Record<string, CacheHint> = {};
  for (const { key, start, end } of members(text ?? '{}')) {
    const hint: unknown = JSON.parse((text ?? '').slice(start, end));
    if (typeof hint !== 'object' || hint === null || !('ttlMs' in hint) || !('cacheScope' in hint)) continue;
    if (typeof hint.ttlMs !== 'number') continue;
    hints[key] = { ttlMs: hint.ttlMs, cacheScope: hint.cacheScope === 'private' ? 'private' : 'public' };
  }
  return hints;
}

function textOfMembers(json: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const { key, start, end } of members(json)) found.set(key, json.slice(start, end));
  return found;
}
