import { startEverything } from '/work/main/test/fixtures/everything.ts';
import { Registry } from '/work/main/packages/server/src/registry/registry.ts';
import { memoryStore } from '/work/main/packages/server/src/registry/store/memory.ts';
import { addForward } from '/work/main/packages/server/src/registry/operations/forwards.ts';
import { Supervisor } from '/work/main/packages/server/src/forwards/supervisor.ts';
import { FULL_CAPABILITIES, NO_CAPABILITIES } from '/work/main/packages/server/src/mcp/capabilities.ts';
const dual = await startEverything();
const registry = new Registry(memoryStore());
await registry.load();
const forward = await registry.commit((draft) => addForward(draft, { name: 'up', address: dual.url, namespace: 'default' as never, labels: {}, prefix: '' }));
const log: any = { info() {}, warn: console.log, error: console.log, debug() {} };
const s = new Supervisor(forward, { registry, log, clientInfo: { name: 'sluice', version: '1' }, variants: () => [NO_CAPABILITIES, FULL_CAPABILITIES], healthCheckIntervalMs: 0 });
let t = performance.now();
await s.discover();
console.log('first discovery', performance.now() - t, s.health);
for (let i = 0; i < 8; i++) { t = performance.now(); await s.discover(true); console.log('warm probe run', (performance.now() - t).toFixed(0)); }

let n=0; const orig=s.changed; (s as any).changed=function(){n++; console.log('changed at', performance.now().toFixed(0)); return orig.call(this)};
await new Promise((r) => setTimeout(r, 3000));
console.log('notices', n, s.health);
await s.end(); await registry.close(); await dual.close();
