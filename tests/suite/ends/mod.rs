//! What is called over is over, and what died is cleaned up after: kills and stops at named moments.

mod half_made;
