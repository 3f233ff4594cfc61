import { describe, expect, it } from 'vitest';
import { parseEnvironment } from '../environment.ts';
import { comparablePipeline } from './comparable.fixture.ts';
import { FULL } from './full.fixture.ts';
import { applyEnvironment } from './load.ts';
import { parsePipeline, readEmbeddedPipeline } from './parse.ts';
import { toPipelineFile } from './serialize.ts';

describe('a serialized pipeline', () => {
  it.each([
    ['the embedded pipeline', () => readEmbeddedPipeline()],
    ['a pipeline with all settings', async () => FULL],
  ])('is equivalent: %s', async (_which, text) => {
    const pipeline = parsePipeline(await text(), 'p', '/etc');
    const again = parsePipeline(JSON.stringify(toPipelineFile(pipeline)), 'p');
    expect(comparablePipeline(again)).toEqual(comparablePipeline(pipeline));
    expect(toPipelineFile(again)).toEqual(toPipelineFile(pipeline));
  });

  it('contains all defaults and values of the environment', async () => {
    const pipeline = parsePipeline(await readEmbeddedPipeline(), 'p');
    const environment = parseEnvironment({ SERVICE_MCP_LISTEN: '[::1]:7', SERVICE_INFERENCE_UPSTREAM: 'https://h' });
    expect(toPipelineFile(applyEnvironment(pipeline, environment))).toMatchObject({
      listeners: [{ address: '[::1]:7' }, { address: '0.0.0.0:8083' }],
      filter_chains: [{ filters: expect.arrayContaining([{ filter: 'mcp', on_invalid: 'continue' }]) }, {}],
      clusters: [{ name: 'inference', endpoints: [{ address: 'h:443', weight: 1 }], tls: {} }],
      body_limits: { max_request_bytes: 4_194_304, max_response_bytes: 67_108_864 },
      shutdown_timeout_secs: 30,
      insecure_options: { skip_pipeline_validation: false },
    });
  });
});
