/** Executes the commands in the LLM result, one after another, so that one component serves many tests. */
export const COMMAND_ACTION = `
import { getHistory } from 'service:evaluator/conversation';
import { error, info } from 'service:evaluator/log';
import { copyToolToNamespace, getTool, listTools, listToolsInNamespace } from 'service:evaluator/registry';
import { block, filterTools, pass, rejectMalformed, setMetadata, warn } from 'service:evaluator/response';
import { verifyLlmResult } from 'service:evaluator/validation';

console.log('at the top level', { started: true });
const show = (value) => info(JSON.stringify(value) ?? 'undefined');
const failing = (what) => { try { return what(); } catch (thrown) { return thrown instanceof Error ? thrown.message : 'no error'; } };
const commands = {
  nothing() {},
  pass, 
  colored: () => info('a\\u001b[31mb\\nc'),
  block: () => block('no \\u001b[31mentry'),
  malformed: () => rejectMalformed('unusable'),
  warn: () => warn('careful'),
  filter: () => filterTools(['a', 'b']),
  none: () => filterTools([]),
  note: () => setMetadata('team.note', 'v'),
  reserved: () => setMetadata('mcp.method', 'v'),
  long: () => setMetadata('k', '\u00e4'.repeat(129)),
  twice: () => { block('first'); pass(); },
  context: (ctx) => show({ ...ctx, keys: Object.keys(ctx).length }),
  tools: () => show([listTools().map(({ name }) => name), listToolsInNamespace('other').map(({ name }) => name), getTool('both'), getTool('none')]),
  copy: () => show([copyToolToNamespace('b', 'new'), copyToolToNamespace('b', 'New'), copyToolToNamespace('none', 'new'), copyToolToNamespace('both', 'other'), listToolsInNamespace('new').length, copyToolToNamespace('b', ' new ')]),
  history: (ctx) => show([getHistory(ctx.conversationId), getHistory('another')]),
  verify: () => show([failing(() => verifyLlmResult('{"a":1}')), failing(() => verifyLlmResult('{"a":"x"}'))]),
  mistyped: () => show([failing(() => block(7)), failing(() => filterTools('a')), failing(() => setMetadata('k', null))]),
  time: () => show([Date.now() > 1.7e12, new Date().getFullYear() > 2024]),
  random: () => show(Math.random()),
  console: () => { console.warn('w', 1n, null, [1], new TypeError('t')); console.error(undefined); console.debug({}); },
  throw: () => { error('before'); throw new RangeError('out of range'); },
  missing: () => new URL('https://example.com').host,
  promise: () => Promise.resolve(),
  loop: () => { for (;;); },
};
export function evaluate(ctx) { return ctx.llmResult.split(' ').map((command) => commands[command](ctx)).at(-1); }
`;

/** Returns the line of a text in the action. */
export const lineWith = (part: string) => COMMAND_ACTION.slice(0, COMMAND_ACTION.indexOf(part)).split('\n').length;
