-- Only PostgreSQL needs it: see the companion.
SELECT 1;
