import { describe, expect, it } from 'vitest';
import {
  acknowledgment,
  legacyResourceUpdated,
  listenResult,
  resourceUpdated,
  subscriptionNotification,
  withoutSubscriptionId,
  withSubscriptionId,
} from './subscriptions.ts';

const META = '"_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993}';
const ID = '9007199254740993';

describe('messages of a subscription', () => {
  it("contain the id with the client's exact text", () => {
    expect(acknowledgment(ID, { toolsListChanged: true })).toBe(
      `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{${META},"notifications":{"toolsListChanged":true}}}`,
    );
    expect(subscriptionNotification(ID, 'notifications/x')).toBe(
      `{"jsonrpc":"2.0","method":"notifications/x","params":{${META}}}`,
    );
    expect(resourceUpdated(ID, 'r://"')).toBe(
      `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{${META},"uri":"r://\\""}}`,
    );
    expect(legacyResourceUpdated('r://"')).toBe(
      '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"r://\\""}}',
    );
    expect(listenResult(ID)).toBe(`{"resultType":"complete",${META}}`);
  });

  it.each([
    [
      'an id of the upstream',
      '{"params":{"_meta":{"a":1.0,"io.modelcontextprotocol/subscriptionId" : "u" },"uri":"r"}}',
    ],
    ['an escaped one', '{"params":{"_meta":{"a":1.0,"io.modelcontextprotocol\\/subscriptionId":[1]},"uri":"r"}}'],
    ['no id', '{"params":{"_meta":{"a":1.0},"uri":"r"}}'],
    ['an empty _meta', '{"params":{"uri":"r","_meta":{ }}}'],
    ['a _meta that is not an object', '{"params":{"uri":"r","_meta":null}}'],
    ['no _meta', '{"x":{"_meta":{}},"params": {"uri":"r"}}'],
    ['empty params', '{"params":{}}'],
    [
      'two ids',
      '{"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"io.modelcontextprotocol/subscriptionId":2}}}',
    ],
  ])('are made of notifications with %s', (_what, text) => {
    const made = withSubscriptionId(text, '"mine"');
    const expected = JSON.parse(text);
    expected.params._meta = { ...expected.params._meta, 'io.modelcontextprotocol/subscriptionId': 'mine' };
    expect(JSON.parse(made)).toEqual(expected);
    expect(made.includes('1.0')).toBe(text.includes('1.0'));
  });

  const MINE = '"io.modelcontextprotocol/subscriptionId"';
  it.each([
    ['alone', `{"params":{"_meta":{${MINE}:1},"uri":"r" }}`, '{"params":{"uri":"r" }}'],
    ['alone, and last', `{"params":{ "uri":"r", "_meta":{ ${MINE} : 1 }}}`, '{"params":{ "uri":"r"}}'],
    ['among others', `{"params":{"_meta":{"a":1.0, ${MINE}:"u" ,"b":2}}}`, '{"params":{"_meta":{"a":1.0 ,"b":2}}}'],
    ['before others', `{"params":{"_meta":{${MINE}:"u","a":1.0}}}`, '{"params":{"_meta":{"a":1.0}}}'],
    [
      'escaped',
      '{"params":{"_meta":{"a":1.0,"io.modelcontextprotocol\\/subscriptionId":[1]}}}',
      '{"params":{"_meta":{"a":1.0}}}',
    ],
    ['twice', `{"params":{"_meta":{${MINE}:1,${MINE}:2},"uri":"r"}}`, '{"params":{"uri":"r"}}'],
  ])('are sent to a legacy client without the subscription id %s', (_where, text, expected) => {
    expect(withoutSubscriptionId(text)).toBe(expected);
  });

  it.each([
    '{}',
    '{"params":{}}',
    '{"params":{"_meta":{ }}}',
    '{"params":{"_meta":null}}',
    '{"params":{"_meta":{"a":1}}}',
  ])('are sent to a legacy client unchanged without an id: %s', (text) => {
    expect(withoutSubscriptionId(text)).toBe(text);
  });
});
