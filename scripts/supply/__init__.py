"""What a release is made of and how it is checked: locks, bill of materials, licences, advisories, builds."""
