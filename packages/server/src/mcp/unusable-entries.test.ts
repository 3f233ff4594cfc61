import { expect, test } from 'vitest';
import { connectLegacy } from '../../../../test/fixtures/legacy-sdk-client.ts';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { connect } from '../../../../test/fixtures/sdk-client.ts';
import { relayTests } from '../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

const INPUT = '"inputSchema":{"type":"object"}';
/** Tools for which an official client of some era rejects the whole list, and the reason that is noted. */
const TOOLS = [
  ['{"name":"t0"}', 'inputSchema is required'],
  ['{"name":"t1","inputSchema":null}', 'inputSchema must be an object'],
  ['{"name":"t2","inputSchema":[]}', 'inputSchema must be an object'],
  ['{"name":"t3","inputSchema":{}}', 'inputSchema.type is required'],
  ['{"name":"t4","inputSchema":{"type":"string"}}', 'inputSchema.type must be object'],
  ['{"name":"t5","inputSchema":{"type":"object","properties":{"a":"b"}}}', 'inputSchema.properties.a must be a schema'],
  ['{"name":"t6","inputSchema":{"type":"object","required":true}}', 'inputSchema.required must be a list'],
  [`{"name":"t7",${INPUT},"outputSchema":7}`, 'outputSchema must be an object'],
  [
    `{"name":"t8",${INPUT},"outputSchema":{"type":"object","required":[7]}}`,
    'outputSchema.required.0 must be a string',
  ],
  [`{"name":"t9",${INPUT},"description":7}`, 'description must be a string'],
  [`{"name":"t10",${INPUT},"title":null}`, 'title must be a string'],
  [`{"name":"t11",${INPUT},"icons":[{}]}`, 'icons.0.src is required'],
  [`{"name":"t12",${INPUT},"annotations":{"readOnlyHint":"yes"}}`, 'annotations.readOnlyHint must be a boolean'],
  [`{"name":"t13",${INPUT},"_meta":[]}`, '_meta must be an object'],
  [
    `{"name":"t14",${INPUT},"execution":{"taskSupport":"maybe"}}`,
    'execution.taskSupport must be one of required, optional, forbidden',
  ],
] as const;
const RESOURCES = [
  ['{"uri":"r:0"}', 'name is required'],
  ['{"uri":"r:1","name":"n","size":"big"}', 'size must be a number'],
  [
    '{"uri":"r:2","name":"n","annotations":{"audience":["all"]}}',
    'annotations.audience.0 must be one of user, assistant',
  ],
  ['{"uri":"r:3","name":"n","annotations":{"priority":2}}', 'annotations.priority must be at most 1'],
  [
    '{"uri":"r:4","name":"n","annotations":{"lastModified":"today"}}',
    'annotations.lastModified must be a time of ISO 8601 with an offset',
  ],
  ['{"uri":"r:5","name":"n","mimeType":null}', 'mimeType must be a string'],
] as const;
const TEMPLATES = [['{"uriTemplate":"r:{t}"}', 'name is required']] as const;
const PROMPTS = [
  ['{"name":"p0","arguments":{}}', 'arguments must be a list'],
  ['{"name":"p1","arguments":[{"required":true}]}', 'arguments.0.name is required'],
] as const;

const texts = (entries: readonly (readonly [string, string])[]) => entries.map(([text]) => text);
const listOf = (member: string, entries: readonly string[]) => `{"${member}":[${entries.join(',')}],${LIST_END}`;

/** The `statusMessage` of the forward whose namespace has this URL. */
async function statusOf(url: string): Promise<string> {
  const { data } = await relay.service.manage('GET', `/forwards/${new URL(url).pathname.split('/')[1]}`);
  return typeof data === 'object' && data !== null && 'statusMessage' in data ? String(data.statusMessage) : '';
}

/** The names that official clients of both eras list; rejects when a client rejects the list. */
async function namesIn(url: string, list: 'tools' | 'resources' | 'resourceTemplates' | 'prompts') {
  const legacy = await connectLegacy(url);
  const modern = await connect(url, 'modern');
  try {
    const found = [];
    for (const client of [legacy, modern.client]) {
      if (list === 'tools') found.push((await client.listTools()).tools);
      else if (list === 'resources') found.push((await client.listResources()).resources);
      else if (list === 'resourceTemplates') found.push((await client.listResourceTemplates()).resourceTemplates);
      else found.push((await client.listPrompts()).prompts);
    }
    return found.map((entries) => entries.map(({ name }) => name));
  } finally {
    await Promise.all([legacy.close(), modern.close()]);
  }
}

test.each([
  ['tools', 'tools/list', TOOLS, toolText('good')],
  ['resources', 'resources/list', RESOURCES, '{"uri":"r:good","name":"good","x":[1.0]}'],
  ['resourceTemplates', 'resources/templates/list', TEMPLATES, '{"uriTemplate":"r:good{x}","name":"good"}'],
  ['prompts', 'prompts/list', PROMPTS, '{"name":"good","arguments":[{"name":"a","x":null}]}'],
] as const)('unusable entries of %s are left out, counted and named', async (list, method, entries, good) => {
  const scripts: Record<string, string> = { [method]: listOf(list, [...texts(entries), good]) };
  const upstream = await upstreamWith(scripts);
  const url = await register(upstream.url);
  const names = await namesIn(url, list);
  expect(names).toEqual([['good'], ['good']]);
  const status = await statusOf(url);
  const count = entries.length === 1 ? '1 entry' : `${entries.length} entries`;
  expect(status).toContain(`${method}: ${count} left out: `);
  for (const [, reason] of entries) expect(status).toContain(`(${reason})`);
  // Each of them would cost the whole list.
  for (const text of texts(entries)) {
    upstream.scripts[method] = listOf(list, [text, good]);
    await expect(namesIn(upstream.url, list)).rejects.toThrow();
  }
});

test('more than twenty unusable entries are counted', async () => {
  const names = Array.from({ length: 23 }, (_, index) => `bad-${index}`);
  const upstream = await upstreamWith({ 'tools/list': toolList(...names.map((name) => `{"name":"${name}"}`)) });
  const url = await register(upstream.url);
  expect(await statusOf(url)).toContain('bad-19 (inputSchema is required) and 3 more');
});
