import fc from 'fast-check';
import { testSeed } from './fixtures/seed.ts';

/** Every property runs with the same values each time, unless `SEED` is set. */
fc.configureGlobal({ seed: testSeed() });
