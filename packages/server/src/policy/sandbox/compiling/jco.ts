import { registerHooks } from 'node:module';
import type { ComponentTools } from '../validate/interface.ts';

/** jco's tools, which are themselves compiled to WebAssembly. */
export interface JcoTools extends ComponentTools {
  /** Generates glue (`action.js`) and core modules (`action.core.wasm`, `action.core2.wasm` ...) from a component. */
  generate(component: Uint8Array): readonly (readonly [name: string, bytes: Uint8Array])[];
}

/** Separate core module files, synchronous instantiation, and glue without Node.js imports. */
const OPTIONS = {
  name: 'action',
  noTypescript: true,
  instantiation: { tag: 'sync' },
  noNodejsCompat: true,
  noNamespacedExports: true,
  base64Cutoff: 0,
} as const;

/**
 * Loads the tools in a process without threads and files. Their WASI shim for Node.js starts a thread, so the one for
 * browsers takes its place.
 */
export async function loadJco(): Promise<JcoTools> {
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
