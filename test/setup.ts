import fc from 'fast-check';
import { testSeed } from './fixtures/seed.ts';

/** Every property is tried with the same values each time, unless `SEED` says otherwise. */
fc.configureGlobal({ seed: testSeed() });
