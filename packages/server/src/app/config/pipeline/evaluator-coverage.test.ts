import { expect, test } from 'vitest';
import { parsePipeline, readEmbeddedPipeline } from './parse.ts';
import { findCoverageGaps, listenersWithoutEvaluators } from './validate.ts';

test('warns of listeners that answer requests without an evaluator filter', async () => {
  const embedded = parsePipeline(await readEmbeddedPipeline(), 'p');
  expect(listenersWithoutEvaluators(embedded.listeners)).toEqual([]);
  const { listeners } = parsePipeline(
    `listeners:
  - {name: health, address: "h:1", filter_chains: [up]}
  - {name: agents, address: "h:2", filter_chains: [up, mcp]}
filter_chains:
  - {name: up, filters: [{filter: static_response, status: 200, conditions: [{when: {path: /up}}]}]}
  - {name: mcp, filters: [{filter: mcp}, {filter: service_namespace}, {filter: service_methods}]}`,
    'p',
  );
  expect(listenersWithoutEvaluators(listeners)).toEqual([
    'evaluators have no effect on listener "agents": none of its chains ("up", "mcp") has the filter ' +
      'service_evaluator; add it after service_namespace',
  ]);
});

test('knows all answering filters of the embedded pipeline', async () => {
  const [mcp] = parsePipeline(await readEmbeddedPipeline(), 'p').listeners;
  const names = mcp?.filters.map(({ settings }) => settings.filter) ?? [];
  const responding = names.slice(names.indexOf('service_evaluator') + 1);
  expect(responding).not.toEqual([]);
  const outlined = ['service_namespace', ...responding, 'service_evaluator'].map((filter) => {
    return { path: [], filter, conditional: false, routes: [], clusters: [] };
  });
  const [found] = findCoverageGaps(outlined);
  expect(found?.text).toContain(`move it before ${responding.join(', ')}`);
});
