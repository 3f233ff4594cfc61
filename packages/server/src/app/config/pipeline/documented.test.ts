import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { formatProblem } from '../yaml-document.ts';
import { checkPipeline, embeddedPipeline } from './parse.ts';
import { PLAIN_FILTERS } from './schema.ts';

const PAGE = await readFile(new URL('../../../../../../docs/pipeline.md', import.meta.url), 'utf8');
const EXAMPLES = [...PAGE.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = '']) => text);

const named = z.array(z.looseObject({ name: z.string() })).default([]);
const part = z.object({ listeners: named, filter_chains: named, clusters: named });

/** The example with what it leaves out, which is as in the embedded pipeline. */
async function whole(example: string): Promise<object> {
  const written: unknown = parse(example);
  const embedded = part.parse(parse(await embeddedPipeline()));
  if (Array.isArray(written)) return { ...embedded, filter_chains: embedded.filter_chains.map(withFilters(written)) };
  const { listeners, filter_chains, clusters } = part.parse(written);
  const own = new Set(filter_chains.map(({ name }) => name));
  return {
    listeners: listeners.length > 0 ? listeners : embedded.listeners,
    filter_chains: [...filter_chains, ...embedded.filter_chains.filter(({ name }) => !own.has(name))],
    clusters,
  };
}

/** Further filters behind those of the chain for MCP. */
const withFilters =
  (more: unknown[]) =>
  ({ name, filters, ...chain }: { name: string; filters?: unknown }) => ({
    ...chain,
    name,
    filters: [...(Array.isArray(filters) ? filters : []), ...(name === 'mcp_router' ? more : [])],
  });

describe('the page about the pipeline file', () => {
  it('has examples', () => {
    expect(EXAMPLES.length).toBeGreaterThan(5);
  });

  it.each(EXAMPLES)('has an example that works: %s', async (example) => {
    const checked = checkPipeline(JSON.stringify(await whole(example)), 'p');
    expect('problems' in checked ? checked.problems.map(formatProblem) : []).toEqual([]);
  });

  it.each([...PLAIN_FILTERS, 'cors', 'mcp', 'static_response', 'router', 'load_balancer', 'headers', 'path_rewrite'])(
    'has the filter %s',
    (filter) => {
      expect(PAGE.split('## Filters')[1]?.split('\n## ')[0]).toContain(`\`${filter}\``);
    },
  );
});
