import { expect, test } from 'vitest';
import { embeddedPipeline, parsePipeline } from './parse.ts';
import { unjudgedFilters, unjudgedListeners } from './validate.ts';

test('listeners that answer requests without an evaluator filter are named, others are not', async () => {
  const judged = parsePipeline(await embeddedPipeline(), 'p');
  expect(unjudgedListeners(judged.listeners)).toEqual([]);
  const { listeners } = parsePipeline(
    `listeners:
  - {name: health, address: "h:1", filter_chains: [up]}
  - {name: agents, address: "h:2", filter_chains: [up, mcp]}
filter_chains:
  - {name: up, filters: [{filter: static_response, status: 200, conditions: [{when: {path: /up}}]}]}
  - {name: mcp, filters: [{filter: mcp}, {filter: service_namespace}, {filter: service_tool_call}]}`,
    'p',
  );
  expect(unjudgedListeners(listeners)).toEqual([
    'evaluators judge nothing at the listener "agents": none of its chains ("up", "mcp") has the filter ' +
      'service_evaluator; put it behind service_namespace',
  ]);
});

test('whatever answers behind the evaluators by default is known to answer', async () => {
  const [mcp] = parsePipeline(await embeddedPipeline(), 'p').listeners;
  const names = mcp?.filters.map(({ settings }) => settings.filter) ?? [];
  const answering = names.slice(names.indexOf('service_evaluator') + 1);
  expect(answering).not.toEqual([]);
  const outlined = ['service_namespace', ...answering, 'service_evaluator'].map((filter) => {
    return { path: [], filter, conditional: false, routes: [], clusters: [] };
  });
  const [found] = unjudgedFilters(outlined);
  expect(found?.text).toContain(`put it before ${answering.join(', ')}`);
});
