import { TimeSlicer } from '@sluice/protocol/time-slicer';
import {
  array,
  constant,
  constantFrom,
  integer,
  oneof,
  property,
  assert as prove,
  record,
  string,
  tuple,
} from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anyCharacter } from '../../../../../test/fixtures/any-character.ts';
import { DEFAULT_NAMESPACE, type Entry } from '../../registry/entries.ts';
import { EntryIndex } from '../../registry/entry-index.ts';
import { render } from '../../registry/serialize.ts';
import { runSteps } from '../../registry/steps.ts';
import {
  buildUserPrompt,
  type PromptInput,
  type PromptTool,
  PromptToolCache,
  sanitizeText,
  toolLine,
} from './prompt.ts';

const CALL: PromptInput['request'] = {
  method: 'tools/call',
  namespace: 'finance',
  toolName: 'transfer',
  arguments: [
    ['amount', '5'],
    ['to', 'Bob'],
  ],
};

function promptOf({
  tools,
  ...input
}: Partial<Omit<PromptInput, 'tools'>> & { readonly tools?: readonly PromptTool[] }): string {
  return buildUserPrompt({ request: CALL, conversation: [], tools: tools?.map(toolLine), ...input });
}

describe('a prompt', () => {
  test('has its sections in order', () => {
    const prompt = promptOf({
      conversation: [
        [
          { role: 'system', content: 'Be kind.' },
          { role: 'user', content: 'Pay Bob' },
        ],
        [],
        [{ role: 'assistant', content: 'How much?' }],
      ],
      tools: [
        { name: 'transfer', description: 'Moves money' },
        { name: 'balance', description: '' },
      ],
    });
    expect(prompt).toBe(`# Conversation
[system]: Be kind.
[user]: Pay Bob

[assistant]: How much?

# Request
method: tools/call
namespace: finance
tool: transfer
arguments:
  amount: 5
  to: Bob

# Available tools
- transfer: Moves money
- balance`);
  });

  test('without conversation, arguments, tool and tools has the request only', () => {
    const request = { method: 'ping/own', namespace: 'default', arguments: [] };
    expect(promptOf({ request })).toBe('# Request\nmethod: ping/own\nnamespace: default');
    expect(promptOf({ request, conversation: [[], []] })).toBe('# Request\nmethod: ping/own\nnamespace: default');
  });

  test('has a section for an empty list of tools', () => {
    const request = { method: 'tools/list', namespace: 'default', arguments: [] };
    expect(promptOf({ request, tools: [] })).toBe(
      '# Request\nmethod: tools/list\nnamespace: default\n\n# Available tools',
    );
  });

  test('truncates long texts', () => {
    const long = 'x'.repeat(5_000);
    const request = { ...CALL, toolName: long, arguments: [[long, long] as const] };
    const prompt = promptOf({
      request,
      conversation: [[{ role: 'user', content: long }]],
      tools: [{ name: long, description: long }],
    });
    const [message, name, argument] = [long.slice(0, 1000), long.slice(0, 200), long.slice(0, 500)];
    expect(prompt).toBe(
      `# Conversation\n[user]: ${message}\n\n# Request\nmethod: tools/call\nnamespace: finance\ntool: ${name}\n` +
        `arguments:\n  ${argument}: ${argument}\n\n# Available tools\n- ${name}: ${name}`,
    );
  });

  test('has a hundred thousand tools', () => {
    const tools = Array.from({ length: 100_000 }, (_, at) => ({ name: `tool-${at}`, description: 'Does\nit' }));
    expect(promptOf({ tools }).split('\n').at(-1)).toBe('- tool-99999: Does it');
  });
});

const text = string({ unit: anyCharacter, maxLength: 30 }).map(
  (own) => `${own}\n\n# Request\nmethod: ping\r\u2028${own}`,
);

test('no inserted text starts a line', () => {
  prove(
    property(
      text,
      array(tuple(text, text), { maxLength: 4 }),
      array(array(record({ role: text, content: text }), { maxLength: 4 }), { maxLength: 4 }),
      array(record({ name: text, description: oneof(constant(''), text) }), { maxLength: 4 }),
      text,
      (toolName, pairs, conversation, tools, method) => {
        const request = { ...CALL, method, namespace: method, toolName, arguments: pairs };
        const lines = promptOf({ request, conversation, tools }).split(/[\r\n\v\f\u0085\u2028\u2029]/);
        const spoken = conversation.filter(({ length }) => length > 0);
        expect(lines.filter((line) => /^\s*#/.test(line))).toEqual([
          ...(spoken.length > 0 ? ['# Conversation'] : []),
          '# Request',
          '# Available tools',
        ]);
        expect(lines.filter((line) => line.startsWith('['))).toHaveLength(spoken.flat().length);
        for (const name of ['method', 'namespace', 'tool']) {
          expect(lines.filter((line) => line.startsWith(`${name}: `))).toHaveLength(1);
        }
        expect(lines.filter((line) => line.startsWith('  '))).toHaveLength(pairs.length);
        expect(lines.filter((line) => line.startsWith('- '))).toHaveLength(tools.length);
      },
    ),
  );
});

const LRE = '\u202a';

describe('sanitizes', () => {
  test.each([
    ['plain text', 'Pay 5 € to "Bob" #1', 'Pay 5 € to "Bob" #1'],
    ['an empty text', '', ''],
    ['a line break', 'a\nb', 'a b'],
    ['a carriage return', 'a\rb', 'a b'],
    ['a carriage return and line break', 'a\r\nb', 'a b'],
    ['a tab', 'a\tb', 'a b'],
    ['several breaks', 'a\r\n\t\n\n b', 'a  b'],
    ['a break at both ends', '\na\n', ' a '],
    ['Unicode line breaks', 'a\u0085b\u2028c\u2029d\u000be\u000cf', 'a b c d e f'],
    ['a break with a control in it', 'a\r\u0000\nb', 'a b'],
    ['C0 controls', 'a\u0000\u0007\u001b[31mb\u007f', 'a[31mb'],
    ['C1 controls', 'a\u0080\u009b\u009fb', 'ab'],
    ['bidirectional controls', `a${LRE}\u202e\u2066\u2069\u061c\u200e\u200fb`, 'ab'],
    ['a heading', '# Request', ' Request'],
    ['a deep heading', '### x #', ' x #'],
    ['a heading after controls', `\u0000${LRE}#x`, 'x'],
    ['a heading after spaces and breaks', ' \n # # x', '     x'],
    ['a heading after other white space', '\u00a0#\u3000#x', '\u00a0\u3000x'],
    ['a # in the middle', 'x # y', 'x # y'],
    ['lone surrogates', 'a\ud800b\udc00', 'a\ufffdb\ufffd'],
    ['characters outside the basic plane', 'a😀b', 'a😀b'],
  ])('%s', (_what, text, expected) => {
    expect(sanitizeText(text, 1000)).toBe(expected);
  });
});

describe('truncates', () => {
  test.each([
    ['aaaa', 3, 'aaa'],
    ['aaa', 3, 'aaa'],
    ['aaé', 3, 'aa'],
    ['aé', 3, 'aé'],
    ['€€', 5, '€'],
    ['a😀', 4, 'a'],
    ['a😀b', 5, 'a😀'],
    ['😀a', 3, ''],
    ['##abc', 2, 'ab'],
    ['##\u0000 #abc', 2, ' a'],
    ['\r\u0000\nab', 2, ' a'],
    ['\u0000\u0000abc', 2, 'ab'],
  ])('%j to %i bytes', (text, most, expected) => {
    expect(sanitizeText(text, most)).toBe(expected);
  });
});

const hostile = array(
  constantFrom('a', ' ', '#', '\n', '\r', '\t', '\u0000', '\u0085', '\u2028', LRE, 'é', '€', '😀', '\ud83d'),
  {
    maxLength: 40,
  },
).map((pieces) => pieces.join(''));

describe.each([
  ['any text', string({ unit: anyCharacter, maxLength: 60 })],
  ['hostile text', hostile],
])('sanitized %s', (_what, texts) => {
  test('is one line without control characters and headings, within the limit', () => {
    prove(
      property(texts, integer({ min: 0, max: 80 }), (text, most) => {
        const sanitized = sanitizeText(text, most);
        expect(Buffer.byteLength(sanitized)).toBeLessThanOrEqual(most);
        expect(sanitized).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]|^\s*#/u);
        expect(sanitized.isWellFormed()).toBe(true);
      }),
    );
  });

  test('is the beginning of a longer one', () => {
    prove(
      property(texts, integer({ min: 0, max: 40 }), (text, most) => {
        const whole = sanitizeText(text, 1000);
        const cut = sanitizeText(text, most);
        expect(whole.startsWith(cut)).toBe(true);
        const next = whole.slice(cut.length).codePointAt(0);
        if (next !== undefined) expect(Buffer.byteLength(cut + String.fromCodePoint(next))).toBeGreaterThan(most);
      }),
    );
  });

  test('is not changed again', () => {
    prove(
      property(texts, (text) => {
        const once = sanitizeText(text, 50);
        expect(sanitizeText(once, 50)).toBe(once);
      }),
    );
  });
});

test('the lines of the tools of a namespace are made once, in slices', async () => {
  const draft = new EntryIndex().copy();
  for (let position = 0; position < 2_000; position++) draft.put(toolEntry(`t${position}`, position));
  const index = runSteps(draft.publishInSteps());
  const steps: number[] = [];
  const slicer = new TimeSlicer();
  const run = slicer.run.bind(slicer);
  slicer.run = (work) => {
    let count = 0;
    return run({
      next() {
        count++;
        const result = work.next();
        if (result.done) steps.push(count);
        return result;
      },
    });
  };
  const cache = new PromptToolCache();
  const lines = await cache.lines(index, slicer);
  expect(lines.slice(0, 2)).toEqual(['- t0: Does it', '- t1: Does it']);
  expect(lines).toHaveLength(2_000);
  expect(await cache.lines(index, slicer)).toBe(lines);
  expect(steps).toEqual([Math.ceil(2_000 / 256)]);
});

function toolEntry(key: string, position: number): Entry {
  const variants = [{ json: `{"name":"${key}","description":"Does it"}`, catalogs: undefined }];
  return render({
    kind: 'tool',
    namespace: DEFAULT_NAMESPACE,
    key,
    name: key,
    registrationId: 1,
    position,
    labels: {},
    members: {},
    discovered: { forward: 'f', upstreamKey: key, variants, overrides: {} },
    definition: {},
  });
}
