import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startGateway } from './fixtures/gateway.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';

const readIfThere = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8') : '');

it('a forward whose discovery was in progress when the process died is discovered alone, after all others', async (context) => {
  const gateway = await startGateway();
  context.onTestFinished(() => gateway.close());
  const order: string[] = [];
  const upstreams = await Promise.all(
    ['a', 'b', 'c'].map(async (name) => {
      const upstream = await startRawUpstream({
        eras: ['modern'],
        scripts: {
          'tools/list': () => {
            order.push(name);
            return toolList(toolText(name));
          },
        },
      });
      context.onTestFinished(() => upstream.close());
      return upstream;
    }),
  );
  for (const [index, upstream] of upstreams.entries()) await gateway.forward(`f${index}`, upstream.url);
  const mark = join(gateway.folder, 'discovering.json');
  await expect.poll(() => existsSync(mark)).toBe(false);

  for (const [index, upstream] of upstreams.slice(0, 2).entries()) {
    upstream.scripts['tools/list'] = { kind: 'silence' };
    const asked = upstream.count('tools/list');
    gateway.api('POST', `/api/v1/forwards/f${index}/refreshes`).catch(() => undefined);
    await expect.poll(() => upstream.count('tools/list')).toBeGreaterThan(asked);
    await expect.poll(() => readIfThere(mark)).toContain(`f${index}`);
  }
  await gateway.kill();

  const names = ['a', 'b', 'c'];
  for (const [index, upstream] of upstreams.entries()) {
    upstream.scripts['tools/list'] = () => {
      order.push(names[index] ?? '');
      return toolList(toolText(names[index] ?? ''));
    };
  }
  order.length = 0;
  await gateway.restart();
  await expect.poll(() => existsSync(mark)).toBe(false);
  // Each is asked for two sets of capabilities.
  expect(order).toEqual(['c', 'c', 'a', 'a', 'b', 'b']);
  expect(
    gateway.logs.filter(({ msg }) => msg.startsWith('discovery was interrupted')).map(({ forward }) => forward),
  ).toEqual(['f0', 'f1']);
});
