import { expect, it } from 'vitest';
import { asking, talking } from './fixtures/talking.ts';
import { Conversations } from './history.ts';

it('what is forgotten while large bodies are read is not shown', async () => {
  const large = (content: string) => asking({ role: 'user', content }, { role: 'x', content: 'x'.repeat(2 ** 20) });
  const store = talking(large('one'), large('two'));
  const reading = new Conversations(store).latest('talk');
  store.clear();
  expect(await reading).toEqual([[], []]);
});
