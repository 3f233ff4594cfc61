import { describe, expect, it } from 'vitest';
import { decodeUnreserved, MatchingBudget, matchTemplate } from './uri-template.ts';

it.each([
  ['test://static', 'test://static'],
  ['test://{id}', 'test://7'],
  ['test://{id}/data', 'test://a-b.c/data'],
  ['test://{a}/{b}', 'test://1/2'],
  ['{scheme}://{host}', 'http://x'],
  ['file:///{+path}', 'file:///a/b/c.txt'],
  ['file:///{+path}', 'file:///a'],
  ['x{+path}y{z}', 'x/y/y1'],
  ['test://{id}{?q,r}', 'test://7?q=1&r=a/b'],
  ['test://{id}{?q,r}', 'test://7'],
  ['test://t{/a,b}', 'test://t/1/2'],
  ['test://t{#frag}', 'test://t#x/y'],
  ['test://t{.ext}', 'test://t.json'],
  ['test://t{.ext}', 'test://t'],
  ['grüße://{x}😀', 'grüße://ä😀😀'],
  ['open{brace', 'open{brace'],
  ['a{b{c}d', 'axd'],
  ['}{x}{', '}y{'],
  ['a{}b', 'axb'],
])('%s matches %s', (template, uri) => {
  expect(matchTemplate(template, uri)).toBe(true);
});

it.each([
  ['test://static', 'test://static2'],
  ['test://static', 'test://stati'],
  ['test://{id}', 'test://'],
  ['test://{id}', 'test://a/b'],
  ['test://{id}', 'TEST://a'],
  ['test://{id}/data', 'test://7/other'],
  ['test://{id}/data', 'test://7/data/more'],
  ['test://{a}/{b}', 'test://1/'],
  ['file:///{+path}', 'file:///'],
  ['file:///{+path}', 'other:///a'],
  ['test://t{.ext}', 'test://t.a/b'],
  ['{+x}', ''],
  ['a.c', 'abc'],
  ['a{x}', 'a'],
  ['(a+)+{x}', 'aaaa!'],
])('%s does not match %s', (template, uri) => {
  expect(matchTemplate(template, uri)).toBe(false);
});

it.each([
  ['file:///docs/café/{name}', 'file:///docs/caf%C3%A9/a', true],
  ['file:///docs/café/{name}', 'file:///docs/caf%c3%a9/%E2%82%AC', true],
  ['file:///docs/caf%C3%A9/{name}', 'file:///docs/café/a', true],
  ['file:///my docs/{name}', 'file:///my%20docs/a%20b', true],
  ['file:///{a}/x', 'file:///%7Euser/%78', true],
  ['file:///{a}', 'file:///a%2Fb', true],
  ['file:///{a}', 'file:///a%252Fb', true],
  ['file:///a%2fb/{c}', 'file:///a%2Fb/c', true],
  ['file:///a/{c}', 'file:///a%2Fc', false],
  ['file:///a%2Fb/{c}', 'file:///a/b/c', false],
  ['file:///caf%E9/{a}', 'file:///caf%e9/b', true],
  ['file:///caf%E9/{a}', 'file:///caf%E8/b', false],
  ['file:///%7Ba%7D/{b}', 'file:///%7Ba%7D/b', true],
  ['file:///%7Ba%7D/{b}', 'file:///x/b', false],
])('%s matches the encoded %s: %s', (template, uri, expected) => {
  expect(matchTemplate(template, decodeUnreserved(uri))).toBe(expected);
});

describe('a hostile template', () => {
  const long = 'a'.repeat(8_000);
  it.each([
    ['many rests', `${'{+a}'.repeat(2_000)}!`, long],
    ['many segments', `${'{a}'.repeat(2_000)}!`, long],
    ['many optional parts', `${'{?a}'.repeat(2_000)}!`, long],
    ['rests and text', `${'{+a}a'.repeat(2_000)}!`, long],
    ['a rest and much text', `{+a}${'a'.repeat(8_000)}!`, long],
    ['much text and much uri', `{a}${'a'.repeat(1_000_000)}`, 'a'.repeat(4_000_000)],
    ['a million expressions', '{+a}'.repeat(1_000_000), long],
    ['a million open braces', '{'.repeat(1_000_000), '{'.repeat(8_000)],
    ['a million encoded characters', '%25'.repeat(1_000_000), '%2F'.repeat(1_000_000)],
  ])('with %s costs no more than its length', (_what, template, uri) => {
    const before = process.cpuUsage();
    expect(matchTemplate(template, decodeUnreserved(uri))).toBe(false);
    // Quadratic behavior would take minutes; the longest of these has four megabytes.
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(4_000);
  });

  it('matches ordinary long uris', () => {
    expect(matchTemplate('file:///{+path}', `file:///${'dir/'.repeat(2_000)}x`)).toBe(true);
    expect(
      matchTemplate('x://{a}/{b}/{c}{?d}', `x://${'a'.repeat(2_000)}/${'b'.repeat(2_000)}/${'c'.repeat(2_000)}?d=1`),
    ).toBe(true);
  });
});

describe('thousands of templates', () => {
  const uri = `x://h/${'a/'.repeat(4_000)}`;
  it.each([
    ['that end differently', 100_000, (n: number) => `x://h/{a}/{b}/{+c}/${n}`],
    ['that differ in the middle', 100_000, (n: number) => `x://h/{+a}/${n}/{b}`],
    ['with encoded characters', 100_000, (n: number) => `x://%68/{+a}/${n}`],
    ['that need many states', 3_000, (n: number) => `${'{+a}'.repeat(200)}${n}{b}`],
    ['with a long common text', 10_000, (n: number) => `x://h/${'a/'.repeat(2_000)}${n}{b}`],
  ])('%s cost little for one uri', (_what, count, templateOf) => {
    const templates = Array.from({ length: count }, (_, n) => templateOf(n));
    const before = process.cpuUsage();
    const budget = new MatchingBudget();
    expect(templates.some((template) => matchTemplate(template, uri, budget))).toBe(false);
    // Without a budget for all of them, each takes many seconds.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(500);
  });

  it('are all matched with an ordinary uri', () => {
    const templates = Array.from({ length: 10_000 }, (_, n) => `https://api.test/{tenant}/kind${n}/{id}`);
    const budget = new MatchingBudget();
    const found = templates.find((template) => matchTemplate(template, 'https://api.test/acme/kind9999/abc', budget));
    expect(found).toBe(templates.at(-1));
  });

  it('are undecided once the budget is used up', () => {
    const budget = new MatchingBudget(true);
    budget.states = -1;
    expect(matchTemplate('y://{a}', uri, budget)).toBe(true);
  });
});
