import { registerHooks } from 'node:module';
import type { ComponentTools } from '../validate/types.ts';

/** jco's tools, compiled to WebAssembly themselves. */
export interface Tools extends ComponentTools {
  /** Makes glue (`action.js`) and core modules (`action.core.wasm`, `action.core2.wasm` ...) of a component. */
  generate(component: Uint8Array): readonly (readonly [name: string, bytes: Uint8Array])[];
}

/** Core modules stay files of their own, nothing of it waits, and there is nothing of Node.js in the glue. */
const OPTIONS = {
  name: 'action',
  noTypescript: true,
  instantiation: { tag: 'sync' },
  noNodejsCompat: true,
  noNamespacedExports: true,
  base64Cutoff: 0,
} as const;

/**
 * Loads the tools in a process without threads and files: what they have of WASI is that for browsers, since that for
 * Node.js starts a thread.
 */
export async function loadTools(): Promise<Tools> {
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context);
      return { ...resolved, url: resolved.url.replace('/preview2-shim/dist/nodejs/', '/preview2-shim/dist/browser/') };
    },
  });
  const [bindgen, component] = await Promise.all([
    import('@bytecodealliance/jco-transpile/component'),
    import(new URL('../vendor/wasm-tools.js', import.meta.resolve('@bytecodealliance/jco-transpile')).href),
  ]);
  await Promise.all([bindgen.$init, component.$init]);
  hooks.deregister();
  return { generate: (bytes) => bindgen.generate(bytes, OPTIONS).files, ...component.tools };
}
