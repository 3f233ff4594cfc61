import { describe, expect, it } from 'vitest';
import { parseEnvironment } from '../environment.ts';
import { FULL } from './full.fixture.ts';
import { withoutPlaces } from './meaning.fixture.ts';
import { embeddedPipeline, fileForm, parsePipeline } from './parse.ts';
import { withEnvironment } from './pipeline.ts';

describe('a pipeline in the form of a file', () => {
  it.each([
    ['the embedded one', () => embeddedPipeline()],
    ['one that has everything', async () => FULL],
  ])('means the same: %s', async (_which, text) => {
    const pipeline = parsePipeline(await text(), 'p', '/etc');
    const again = parsePipeline(JSON.stringify(fileForm(pipeline)), 'p');
    expect(withoutPlaces(again)).toEqual(withoutPlaces(pipeline));
    expect(fileForm(again)).toEqual(fileForm(pipeline));
  });

  it('names every default, and what the environment has put in', async () => {
    const pipeline = parsePipeline(await embeddedPipeline(), 'p');
    const environment = parseEnvironment({ SERVICE_MCP_LISTEN: '[::1]:7', SERVICE_INFERENCE_UPSTREAM: 'https://h' });
    expect(fileForm(withEnvironment(pipeline, environment))).toMatchObject({
      listeners: [{ address: '[::1]:7' }, { address: '0.0.0.0:8083' }],
      filter_chains: [{ filters: expect.arrayContaining([{ filter: 'mcp', on_invalid: 'continue' }]) }, {}],
      clusters: [{ name: 'inference', endpoints: [{ address: 'h:443', weight: 1 }], tls: {} }],
      body_limits: { max_request_bytes: 4_194_304, max_response_bytes: 67_108_864 },
      shutdown_timeout_secs: 30,
      insecure_options: { skip_pipeline_validation: false },
    });
  });
});
