// Writes what is made of the contract: the types of the client (see src/client/generate.ts).
import { writeFileSync } from 'node:fs';
import { generateTypes, TYPES_FILE } from '../src/client/generate.ts';

writeFileSync(TYPES_FILE, await generateTypes());
