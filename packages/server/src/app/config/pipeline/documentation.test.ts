import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { formatProblem } from '../yaml-document.ts';
import { checkPipeline, readEmbeddedPipeline } from './parse.ts';
import { FILTERS } from './schema.ts';

const PAGE = await readFile(new URL('../../../../../../docs/pipeline.md', import.meta.url), 'utf8');
const EXAMPLES = [...PAGE.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = '']) => text);

const named = z.array(z.looseObject({ name: z.string() })).default([]);
const part = z.object({ listeners: named, filter_chains: named, clusters: named });

/** Completes an example with parts of the embedded pipeline. */
async function complete(example: string): Promise<object> {
  const content: unknown = parse(example);
  const embedded = part.parse(parse(await readEmbeddedPipeline()));
  if (Array.isArray(content)) return { ...embedded, filter_chains: embedded.filter_chains.map(withFilters(content)) };
  const { listeners, filter_chains, clusters } = part.parse(content);
  const own = new Set(filter_chains.map(({ name }) => name));
  return {
    listeners: listeners.length > 0 ? listeners : embedded.listeners,
    filter_chains: [...filter_chains, ...embedded.filter_chains.filter(({ name }) => !own.has(name))],
    clusters,
  };
}

/** Appends filters to the chain for MCP. */
const withFilters =
  (more: unknown[]) =>
  ({ name, filters, ...chain }: { name: string; filters?: unknown }) => ({
    ...chain,
    name,
    filters: [...(Array.isArray(filters) ? filters : []), ...(name === 'mcp_router' ? more : [])],
  });

describe('docs/pipeline.md', () => {
  it('has examples', () => {
    expect(EXAMPLES.length).toBeGreaterThan(5);
  });

  it.each(EXAMPLES)('has a valid example: %s', async (example) => {
    const checked = checkPipeline(JSON.stringify(await complete(example)), 'p');
    expect('problems' in checked ? checked.problems.map(formatProblem) : []).toEqual([]);
  });

  it.each(FILTERS)('documents the filter %s', (filter) => {
    expect(PAGE.split('## Filters')[1]?.split('\n## ')[0]).toContain(`\`${filter}\``);
  });
});
