import { expect, it } from 'vitest';
import { withoutPrefix } from './public-url.ts';

it.each([
  ['/gw/default/mcp', '/default/mcp'],
  ['/gw/default/mcp/?a=/gw', '/default/mcp/?a=/gw'],
  ['/default/mcp', '/default/mcp'],
  ['/gw', '/'],
  ['/gw/', '/'],
  ['/gw?x=1', '/?x=1'],
  ['/gwx/mcp', '/gwx/mcp'],
  ['/x/gw/mcp', '/x/gw/mcp'],
  // A namespace of the name, without and with the prefix.
  ['/gw/mcp', '/gw/mcp'],
  ['/gw/mcp/?x', '/gw/mcp/?x'],
  ['/gw/gw/mcp', '/gw/mcp'],
  ['/gw/authorize?scope=a', '/authorize?scope=a'],
  ['/gw/.well-known/openid-configuration', '/.well-known/openid-configuration'],
  ['/.well-known/openid-configuration', '/.well-known/openid-configuration'],
  ['/.well-known/openid-configuration/gw', '/.well-known/openid-configuration'],
  ['/.well-known/oauth-authorization-server/gw', '/.well-known/oauth-authorization-server'],
  ['/.well-known/oauth-authorization-server/gw?x', '/.well-known/oauth-authorization-server?x'],
  ['/.well-known/oauth-protected-resource/gw/default/mcp', '/.well-known/oauth-protected-resource/default/mcp'],
  ['/.well-known/oauth-protected-resource/gw/default/mcp/', '/.well-known/oauth-protected-resource/default/mcp/'],
  ['/.well-known/oauth-protected-resource/gw/mcp', '/.well-known/oauth-protected-resource/gw/mcp'],
])('%s is %s without the prefix /gw', (target, expected) => {
  expect(withoutPrefix(target, { prefix: '/gw' })).toBe(expected);
});

it.each(['/', '/default/mcp', '/.well-known/openid-configuration'])('%s is unchanged without a prefix', (target) => {
  expect(withoutPrefix(target, { prefix: '' })).toBe(target);
});
