import { expect, it } from 'vitest';
import { actionTests } from './fixtures/action-tests.ts';
import { testOrdinaryActions } from './fixtures/ordinary-action-tests.ts';
import { slowToolchains, toolchains } from './fixtures/ordinary-actions.ts';
import { quickjsComponent } from './fixtures/quickjs-component.ts';
import { starlingmonkeyComponent } from './fixtures/starlingmonkey-component.ts';
import { statefulAction } from './fixtures/stateful-action.ts';
import { walkComponent } from './validate/component.ts';
import { tools, validate } from './validate/component-tools.fixture.ts';
import { boundMemories } from './validate/core-module.ts';

const parts = actionTests();
const { compiler, reason } = parts;

testOrdinaryActions(parts, slowToolchains);

it.each([
  ['quickjs', () => quickjsComponent(statefulAction, 'default')],
  ['starlingmonkey', () => starlingmonkeyComponent(statefulAction, 'default')],
  ['starlingmonkey, minimal', () => starlingmonkeyComponent(statefulAction, 'minimal')],
])('an invocation has no state of the previous one: %s', async (_name, file) => {
  const action = await compiler.compile(await file());
  for (let time = 0; time < 3; time++) expect(await reason(action, 'a secret')).toBe('nothing,,');
});

it.each(slowToolchains)('components of %s pass', async (name) => {
  const bytes = await toolchains[name]();
  validate(bytes);
  const { coreModules, memoryPages } = walkComponent(bytes);
  expect(coreModules).toBeGreaterThan(0);
  expect(memoryPages).toBeGreaterThan(0);
});

it.each(slowToolchains)('modules of %s with bound memories are valid', async (name) => {
  const files = tools.generate(await toolchains[name]());
  const modules = files.filter(([file]) => file.endsWith('.wasm')).map(([, bytes]) => bytes);
  const all = boundMemories(modules);
  for (const { bytes } of all) expect(WebAssembly.validate(bytes)).toBe(true);
  const pages = all.reduce((sum, module) => sum + module.pages, 0);
  expect(pages).toBeGreaterThan(0);
  expect(pages).toBeLessThanOrEqual(1024);
});
