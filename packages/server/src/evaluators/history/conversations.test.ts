import { expect, it } from 'vitest';
import { Conversations } from './conversations.ts';
import { asking, talking } from './fixtures/talking.ts';

it('what is forgotten while large bodies are read is not shown', async () => {
  const large = (content: string) => asking({ role: 'user', content }, { role: 'x', content: 'x'.repeat(2 ** 20) });
  const store = talking(large('one'), large('two'));
  const reading = new Conversations(store).latest('talk');
  store.clear();
  expect(await reading).toEqual([[], []]);
});
